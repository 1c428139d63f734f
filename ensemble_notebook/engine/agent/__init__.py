"""One agent at work: prompts, the loop of turns, model calls, tools, typed replies. Knows no graph of tasks."""
