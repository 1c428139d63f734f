"""What the timeline in the browser is told: rows, deltas, details on request."""
