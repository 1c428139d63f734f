#!/usr/bin/env bash
# jsonschema-rs 0.61.0 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: `canonical.find_unsatisfiable(schema)`, which names the places for which no value fits, is empty just where
# `canonicalize(schema).satisfiability()` does not say NO.
# Seen: for an object that requires itself inside itself by "$ref": "#", the former is empty, and the latter says NO.
# Of contradicting bounds both tell. Who wants to refuse such types of outputs has to ask both.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet jsonschema-rs==0.61.0
"$folder/env/bin/python" - <<'PY'
from jsonschema_rs import canonicalize
from jsonschema_rs.canonical import Satisfiability, find_unsatisfiable

bounds = {"type": "integer", "minimum": 5, "maximum": 3}
endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
for name, schema in (("bounds", bounds), ("endless", endless)):
    places, whole = list(find_unsatisfiable(schema)), canonicalize(schema).satisfiability()
    print(f"{name}: {len(places)} places, as a whole {whole}")
    assert whole is Satisfiability.NO, whole
    assert bool(places) is (name == "bounds"), places
PY
