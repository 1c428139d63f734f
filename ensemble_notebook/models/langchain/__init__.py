"""LangChain chat models behind the engine's seam: messages, replies, bounds, what exceptions mean."""
