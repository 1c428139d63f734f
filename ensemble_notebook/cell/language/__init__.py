"""The words of the cell language: keys, kinds of values, familiar spellings, options, short amounts."""
