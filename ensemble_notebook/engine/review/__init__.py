"""Where a person, or a function in place of one, is asked about a task. Knows nothing of phases."""
