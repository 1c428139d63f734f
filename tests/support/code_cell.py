"""Notebook cells for tests of code: executed in a namespace, with their text where IPython keeps it."""

import itertools
import linecache
from typing import Any

_numbers = itertools.count(1)


class Notebook:
    """A namespace in which cells are executed, as in a kernel: each under a name of its own, and with its text kept."""

    def __init__(self, *sources: str) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        for source in sources:
            self.run(source)

    def run(self, source: str) -> Any:
        """Execute a cell; what the name ``it`` stands for then."""
        file = f"<ipython-input-{next(_numbers)}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec", dont_inherit=True), self.names)
        return self.names.get("it")
