"""A real shell for the cells."""

from tests.notebook.conftest import ip, shell

__all__ = ["ip", "shell"]
