"""The fold of events into spans, one event at a time."""
