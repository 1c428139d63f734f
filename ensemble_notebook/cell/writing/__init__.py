"""From definitions back to text: a cell, or Python. Reads no cell, and imports nothing that a text names."""
