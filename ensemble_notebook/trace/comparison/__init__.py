"""Two runs beside each other: what was declared, asked, answered and spent. Knows no page and no store."""
