"""Events and times as plain JSON values, and back."""
