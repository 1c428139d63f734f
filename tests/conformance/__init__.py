"""Tests for each rule of the engine, by its number: ``test_e25_global_cap_counts_approved_attempts``.

They use the public names alone, as a user would. ``python -m tests.conformance`` writes ``docs/conformance.md`` from
them.
"""
