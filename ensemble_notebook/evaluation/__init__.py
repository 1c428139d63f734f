"""Scores and verdicts (V): what runs are worth, and what can be said of it. Knows neither models nor how runs go."""
