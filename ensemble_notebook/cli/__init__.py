"""``jupyter ensemble``: the command line. Knows nothing of the magics; both stand on the same layers."""
