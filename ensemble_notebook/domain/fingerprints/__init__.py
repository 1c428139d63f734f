"""Digests of everything that determines a task's result: equal digests, equal work (C34). Knows no store and no run."""
