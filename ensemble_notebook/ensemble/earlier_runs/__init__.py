"""What a run leaves for later ones, and takes from earlier ones: remembering, reuse, resuming."""
