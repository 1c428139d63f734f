"""Definitions resolved: the graph of tasks, the team, the plan."""
