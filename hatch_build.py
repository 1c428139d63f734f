"""The build hook: what the package ships that is not Python.

It runs for every wheel, sdist and editable install, and knows nothing of the package's own code. The timeline's bundle
is always built anew in a checkout, because a stale one that ships is worse than the half second it costs; `npm ci` runs
only when the lock file is newer than what is installed. An sdist carries the bundle, so that nobody else needs Node.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# They go into the package, where the command line reads them; an editable install has them beside the package anyway.
# The configuration templates must not land where IPython looks: it reads one file name per environment, and two wheels
# that ship it collide.
_FOLDERS = ("demos", "jupyter-config", "notebooks")

_NODE_NEEDED = (
    "Node.js >= 20 with npm is needed to build the timeline from a checkout: install it (Debian: apt-get install "
    "nodejs npm) and try again, or install a released wheel or sdist, which carry the built timeline."
)


class EnsembleNotebookBuildHook(BuildHookInterface[Any]):
    """Makes sure that `ensemble_notebook/static/` is there and fresh, and adds the folders beside it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle from `js/`, or check that the sdist brought it.

        Raises:
            SystemExit: npm is missing or fails in a checkout, or an sdist is incomplete.
        """
        root = Path(self.root)
        if self.target_name == "wheel" and version == "standard":
            build_data["force_include"] |= {folder: f"ensemble_notebook/{folder}" for folder in _FOLDERS}
        # Only an unpacked sdist has its metadata beside the sources.
        if not (root / "PKG-INFO").exists():
            _build(root / "js")
        bundle = root / "ensemble_notebook" / "static" / "timeline.js"
        if not bundle.is_file():
            sys.exit(f"The timeline's bundle is missing: {bundle} should be there by now.")


def _build(js: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        sys.exit(_NODE_NEEDED)
    lock, installed = js / "package-lock.json", js / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _run(npm, "ci", cwd=js)
        installed.touch()
    _run(npm, "run", "build", cwd=js)


def _run(*command: str, cwd: Path) -> None:
    # Output goes to stderr: a build backend's stdout belongs to its frontend.
    outcome = subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False)
    if outcome.returncode:
        sys.exit(f"`{' '.join(command)}` failed with exit status {outcome.returncode} in {cwd}.")
