"""What the teams of the lessons are made of, where it is not what a lesson teaches."""
