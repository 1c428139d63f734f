"""A run on screen while it goes on: widget, terminal table, reviews, interrupts."""
