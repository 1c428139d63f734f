"""One task of the plan, from what it is given to its output."""
