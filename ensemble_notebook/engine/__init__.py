"""Turns a graph of tasks into a stream of events: a pure scheduler, and a thin driver that acts on what it decides.

Knows models only through the Protocols of `domain.seams.chat_port`, and nothing of traces or notebooks.
"""
