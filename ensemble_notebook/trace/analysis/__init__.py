"""Answers computed from finished spans, one module each (T20); two runs compared (T22)."""
