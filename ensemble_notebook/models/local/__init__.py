"""The embedded model: its server in this process, and its weights."""
