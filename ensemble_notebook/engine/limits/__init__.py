"""What stands before a model request: budgets and rate limits. Knows no prompts and no agents."""
