"""The static picture of a run or plan, and safe text around it."""
