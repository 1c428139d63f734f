"""The event loop of the process, threads for users' sync functions, and words between threads. Knows no run."""
