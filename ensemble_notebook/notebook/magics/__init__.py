"""The magics and the extension that loads them."""
