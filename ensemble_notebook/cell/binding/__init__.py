"""From drafts to definitions: names resolved, references followed, inputs found."""
