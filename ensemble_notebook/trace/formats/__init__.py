"""Traces as files: our JSON, and that of AgentEnsemble."""
