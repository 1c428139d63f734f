"""From text to sections: the first line, YAML with places, mistakes; reads values and looks up no names."""
