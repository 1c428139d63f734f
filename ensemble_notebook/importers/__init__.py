"""What other programs have written, as our events: one module a program. Knows the domain alone."""
