#!/usr/bin/env bash
# traitlets 5.16.1 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a function under `@validate("limit")` sees each value that is set, so that it can refuse None, too.
# Seen: a None set on a trait that allows it (`Any` does, unasked) goes by the function, and stands. The same None, set
# while notifications are held, which is how a configuration and IPython's `%config` set a trait, is shown to it, and
# refused. So a setting that can't be switched off by `%config NAME.limit = None` is switched off by an assignment.
# A bare `TraitType(None)`, which takes any value and does not say that it allows None, shows it in both ways.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet traitlets==5.16.1
"$folder/env/bin/python" - <<'PY'
from traitlets import Any, HasTraits, Int, TraitError, TraitType, validate


class Settings(HasTraits):
    limit = Any("$1")
    calls = Int(5, allow_none=True)
    bare = TraitType("$1")

    @validate("limit", "calls", "bare")
    def check(self, proposal):
        if proposal["value"] is None:
            raise TraitError("it can't be switched off")
        return proposal["value"]


def set_none(name, is_held):
    settings = Settings()
    try:
        if is_held:
            with settings.hold_trait_notifications():
                setattr(settings, name, None)
        else:
            setattr(settings, name, None)
    except TraitError:
        return "refused"
    return "set" if getattr(settings, name) is None else "kept"


for name, expected in {"limit": "set", "calls": "set", "bare": "refused"}.items():
    direct, held = set_none(name, is_held=False), set_none(name, is_held=True)
    print(f"{name} = None: {direct}; while notifications are held: {held}")
    assert (direct, held) == (expected, "refused")
PY
