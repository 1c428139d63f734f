"""What a run and each start of a task are given. Holds values; does nothing."""
