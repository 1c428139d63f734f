"""Print the newest Python of this machine of another version than the one that runs this; nothing where none is.

Looked for are the commands ``python3.11`` and later, and what pyenv has installed, also where it shows none of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = (14, 13, 12, 11)


def find_other() -> str | None:
    """Find another Python that starts, and says of itself which version it is."""
    for minor in VERSIONS:
        for path in _list_candidates(minor) if minor != sys.version_info.minor else ():
            told = subprocess.run(
                [path, "-c", "import ensurepip, sys; print(sys.version_info.minor)"], capture_output=True, text=True
            )
            if told.stdout.strip() == str(minor):
                return path
    return None


def _list_candidates(minor: int) -> Iterator[str]:
    if (found := shutil.which(f"python3.{minor}")) is not None:
        yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(map(str, root.glob(f"versions/3.{minor}.*/bin/python")), reverse=True)


if __name__ == "__main__":
    sys.stdout.write(find_other() or "")
