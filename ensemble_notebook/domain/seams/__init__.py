"""Protocols between layers: chat models, and the rich display of objects."""
