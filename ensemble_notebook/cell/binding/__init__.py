"""From sections to definitions: looks up names, follows references, finds inputs."""
