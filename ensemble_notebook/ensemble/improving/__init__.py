"""Better words for an ensemble (V68): a search by gepa over our maps, and the verdict of rows that it never saw."""
