"""SQL over the runs that the store keeps (T121, T122)."""
