"""Immutable definitions, events and outputs, the rules between them, and the Protocols at the seams.

Knows nothing of asyncio, models, pandas or notebooks.
"""
