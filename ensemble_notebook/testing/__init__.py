"""Fakes for tests, ours and those of others: streams of events made by hand, and what every trace must hold."""
