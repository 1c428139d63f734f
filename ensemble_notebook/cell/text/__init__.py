"""The text of a cell: places, YAML with positions, and what is wrong with it. Knows no key of the language."""
