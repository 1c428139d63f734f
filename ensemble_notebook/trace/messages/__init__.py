"""What was said in a run, in reading order, and how full the windows of its models were. Must not know who shows it."""
