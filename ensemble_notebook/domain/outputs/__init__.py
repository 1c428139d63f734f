"""What runs leave behind: outputs, metrics, estimates; and the masking of secrets in all of it."""
