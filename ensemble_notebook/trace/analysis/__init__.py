"""Answers computed from finished spans: what was critical, how busy, who did what, what led to what."""
