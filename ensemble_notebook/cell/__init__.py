"""The ``%%ensemble`` language: cell text to definitions, every mistake with its place.

Nothing in a cell is evaluated, and reading imports nothing that a cell names. Knows neither IPython nor how things run.
"""
