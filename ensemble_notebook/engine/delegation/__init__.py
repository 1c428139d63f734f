"""Agents that hand work to agents: peers, the manager, its constraints and policies."""
