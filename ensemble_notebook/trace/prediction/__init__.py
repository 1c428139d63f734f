"""Predicts how long a run would have taken under other conditions (T23). Knows no engine and no page."""
