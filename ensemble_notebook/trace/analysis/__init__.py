"""Answers computed from finished spans: what was critical, who did what, how long it would have taken otherwise."""
