"""What may stand at the caret of a cell that is being written (C20, C21)."""
