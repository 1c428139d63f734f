"""Environments with packages that the project itself does without: `.venv-others/NAME`, which git ignores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
INSTALL_LIMIT_S: Final = 1500.0  # some packages are compiled


def install_packages(name: str, *packages: str) -> Path:
    """Install the newest versions of packages of npm into `.venv-others/NAME`, and give their folder."""
    folder = ROOT / ".venv-others" / name
    folder.mkdir(parents=True, exist_ok=True)
    newest = [f"{each}@latest" for each in packages]
    quiet = ("--silent", "--no-audit", "--no-fund", "--no-package-lock")
    subprocess.run(
        ["npm", "install", *quiet, "--prefix", folder, *newest], check=True, timeout=INSTALL_LIMIT_S, cwd=folder
    )
    return folder / "node_modules"


class Venv:
    """A virtual environment with the newest versions of `packages` that go together.

    It stays, so that the next run asks for newer versions only. This checkout is installed in it, with its extras where
    `ours` names them (``"[lab]"``); with None it is not, as for the server of a model.
    """

    def __init__(self, name: str, *packages: str, ours: str | None = "") -> None:
        self.folder = ROOT / ".venv-others" / name
        self.bin = self.folder / "bin"
        if not (self.bin / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", self.folder], check=True)
        checkout = [] if ours is None else ["--editable", f"{ROOT}{ours}"]
        pip = ("python", "-m", "pip", "--disable-pip-version-check")
        self.run(*pip, "install", "--quiet", "--upgrade", *checkout, *packages, limit_s=INSTALL_LIMIT_S)
        listed = json.loads(self.run(*pip, "list", "--format", "json"))
        installed = {canonicalize_name(each["name"]): each["version"] for each in listed}
        names = [canonicalize_name(Requirement(package).name) for package in packages]
        self.versions: Final = {name: installed[name] for name in names}

    def make_environment(self, **more: str) -> dict[str, str]:
        """What its programs find around them: its own folder of programs first, and no run store."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "VIRTUAL_ENV": str(self.folder), "ENSEMBLE_NOTEBOOK_STORE": "off"} | more

    def run(
        self,
        program: str,
        *arguments: str | Path,
        cwd: Path | None = None,
        limit_s: float = 240.0,
        **environment: str,
    ) -> str:
        """Run one of its programs to its end, and give what it wrote to stdout.

        Raises:
            AssertionError: it ended with another status than 0; with all that it wrote.
            TimeoutExpired: it took longer than `limit_s`.
        """
        ended = subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd,
            env=self.make_environment(**environment),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert ended.returncode == 0, f"{program} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout
