"""Protocols between layers: chat models, what is remembered of runs, and the rich display of objects."""
