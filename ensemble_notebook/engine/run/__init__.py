"""One run: acts on what the scheduler decides, and says what the run came to."""
