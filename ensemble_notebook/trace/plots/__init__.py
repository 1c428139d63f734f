"""Ready figures of a run, drawn by Altair from its frames (T26); Altair is loaded when the first is asked for."""
