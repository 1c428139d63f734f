"""Keys of code are the same under every version of Python (C34a): what one version has stored serves the next.

The digests beside the forms were made by Python 3.11. `make check` runs this under two versions, where there are two.
"""

from __future__ import annotations

import json
from pathlib import Path

from ensemble_notebook.domain.fingerprints.parts import make_content_graph
from tests.support.code_cell import Notebook

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_keys_of_all_forms_of_code_are_those_of_python_3_11() -> None:
    names = Notebook((FIXTURES / "code_forms.txt").read_text()).names
    graph = make_content_graph()
    wanted = json.loads((FIXTURES / "code_keys.json").read_text())
    found = {name: graph.read(names[name]) for name in wanted}
    assert {name: each.digest for name, each in found.items()} == wanted
    assert not any(each.obstacle for each in found.values())
    assert len(wanted) > 60
