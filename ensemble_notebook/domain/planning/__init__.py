"""Definitions resolved: the rules between them, the graph of tasks, the team, the plan."""
