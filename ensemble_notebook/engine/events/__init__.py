"""The stream of events of a run: numbered, stamped, brought to listeners and to the log. Knows nothing of who emits."""
