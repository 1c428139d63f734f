"""Exchanges with models, written down and answered again: recordings and replays."""
