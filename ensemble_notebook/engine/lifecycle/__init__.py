"""How the work on a task begins and ends, as events. Written once, for planned, delegated and reviewing tasks."""
