"""What the tables of a trace are: every column with dtype, unit and meaning; how records become a DataFrame."""
