"""From sections to definitions: names resolved, references followed, inputs found."""
