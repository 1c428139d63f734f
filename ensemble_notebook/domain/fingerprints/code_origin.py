"""Tells installed packages, which are compared by name and version, from the user's own code."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

_OUR_PACKAGE: Final = __name__.partition(".")[0]
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
_FOLDERS: Final = tuple(
    str(Path(folder).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (folder := sysconfig.get_paths().get(name))
)


def is_installed(module: Any) -> bool:
    """Whether a module belongs to Python, to an installed package or to this one. Packages under development do not."""
    if not isinstance(module, str) or module == "__main__":
        return False
    root = module.partition(".")[0]
    if root == _OUR_PACKAGE or root in sys.stdlib_module_names:
        return True
    found = sys.modules.get(module) or sys.modules.get(root)
    file = getattr(found, "__file__", None)
    if file is None:  # of a compiled package, or a notebook's own that was made by hand
        return getattr(found, "__spec__", None) is not None
    return _is_in_installation(file)


@functools.lru_cache(maxsize=4_096)
def _is_in_installation(file: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(file).parts) or str(Path(file).resolve()).startswith(_FOLDERS)


@functools.cache
def find_version(module: str) -> str:
    """Find the version of the package of a module; empty for the standard library."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        return ""
    try:
        return importlib.metadata.version(root)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return str(getattr(sys.modules.get(root), "__version__", ""))


def find_by_name(module: Any, qualname: str) -> Any:
    """Find what a loaded module has under a qualified name; None where it has nothing."""
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def find_own_file(module: str) -> str | None:
    """Find the file of a user's module, loaded or not. Imports nothing, so for a package only its root is found."""
    if is_installed(module):
        return None
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    file = None if spec is None or not spec.has_location else spec.origin
    return None if file is None or _is_in_installation(file) else file
