"""Running one ensemble many times: for each row (E72), under each variant (E73), and the result. Knows no notebook."""
