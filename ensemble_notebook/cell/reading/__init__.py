"""From YAML nodes to sections: values by field, each with its place. Names are still names."""
