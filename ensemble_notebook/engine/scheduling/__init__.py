"""What runs next: a pure state machine over tasks and phases. Knows no loop, clock, thread or model."""
