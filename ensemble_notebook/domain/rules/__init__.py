"""The rules between the objects of an ensemble. All problems are found at once."""
