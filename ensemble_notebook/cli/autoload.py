"""``enable`` and ``disable``: ``%%ensemble`` without ``%load_ext``, through IPython's own ``lazy_magics``.

IPython reads one configuration file per place, which other programs write to as well. So ``enable`` changes nothing
that is there, and ``disable`` removes only what ``enable`` has added. The magic's module is imported when the magic is
first used.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.package_files import find_package_file
from ensemble_notebook.errors import EnsembleError

_TEMPLATE: Final = "ipython_config.lazy_magics.json"
_FILE: Final = "ipython_config.json"


def find_user_config() -> Path:
    """The configuration of this user, in all environments."""
    from IPython.paths import get_ipython_dir

    return Path(get_ipython_dir()) / "profile_default" / _FILE


def find_environment_config() -> Path:
    """The configuration of this Python environment, for all its users."""
    return Path(sys.prefix) / "etc" / "ipython" / _FILE


def enable(file: Path) -> bool:
    """Have IPython know ``%%ensemble`` from the start. Returns False where it did already.

    Raises:
        EnsembleError: the file is no JSON object, gives the name to another module, or has a Python file beside it
            that sets the same option, which a JSON file would silently replace.
    """
    config, ours = _read(file), _read_template()
    if _merge(config, ours) == config:
        return False
    python = file.with_suffix(".py")
    if python.exists() and re.search(r"^[^#\n]*\blazy_magics\b", python.read_text(encoding="utf-8"), re.MULTILINE):
        ((name, module),) = ours["MagicsManager"]["lazy_magics"].items()
        raise EnsembleError(
            f"{python} sets lazy_magics itself, and a JSON file beside it would replace what it says. "
            f"Add this entry there instead: {name!r}: {module!r}"
        )
    _write(file, _merge(config, ours))
    return True


def disable(file: Path) -> bool:
    """Take back what `enable` did. Returns False where there was nothing to take back.

    Raises:
        EnsembleError: the file is no JSON object.
    """
    config = _read(file)
    rest = _subtract(config, _read_template())
    if rest == config:
        return False
    if rest:
        _write(file, rest)
    else:
        file.unlink()
    return True


def _read_template() -> dict[str, Any]:
    template: dict[str, Any] = json.loads((find_package_file("jupyter-config") / _TEMPLATE).read_text(encoding="utf-8"))
    return template


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EnsembleError(f"{file} is no valid JSON ({error}). Repair or remove it, then try again.") from error
    if not isinstance(config, dict):
        raise EnsembleError(f"{file} holds no JSON object. Repair or remove it, then try again.")
    return config


def _write(file: Path, config: Mapping[str, Any]) -> None:
    """Write the whole file or nothing: IPython can't read any of a configuration that is half written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(file)


def _merge(config: Mapping[str, Any], ours: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    merged = dict(config)
    for key, value in ours.items():
        name = f"{path}.{key}".lstrip(".")
        if isinstance(value, Mapping):
            theirs = config.get(key, {})
            if not isinstance(theirs, Mapping):
                raise EnsembleError(f"{name} holds {theirs!r} where names belong. Repair it, then try again.")
            merged[key] = _merge(theirs, value, name)
        elif config.get(key, value) != value:
            raise EnsembleError(f"{name} is {config[key]!r} already, which is not ours to change.")
        else:
            merged[key] = value
    return merged


def _subtract(config: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the entries that are exactly ours, and the mappings that become empty by that."""
    rest = {}
    for key, value in config.items():
        mine = ours.get(key)
        kept = _subtract(value, mine) if isinstance(value, Mapping) and isinstance(mine, Mapping) else value
        if key in ours and (kept == mine or (kept == {} and value)):
            continue
        rest[key] = kept
    return rest
