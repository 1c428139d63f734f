"""The run store: what runs leave behind, in one SQLite file (T30-T32). Knows nothing of how a run is carried out."""
