"""Spans: the intervals of a run, the tree that they form, the sums over it. Knows no events' meaning and no file."""
