"""From YAML nodes to sections: reads the values of keys, each with its place, and looks up no names."""
