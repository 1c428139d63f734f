"""The guide to testing is true: its examples are tests, and they pass."""

import inspect
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
NAMES: dict[str, object] = {"__name__": "guide"}
BLOCKS = re.findall(r"^```python\n(.+?)^```$", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)
exec(compile("\n".join(BLOCKS), GUIDE.name, "exec", dont_inherit=True), NAMES)
EXAMPLES = [name for name in NAMES if name.startswith("test_")]


def test_each_block_of_the_guide_has_an_example():
    assert [len(re.findall("^def test_", block, flags=re.MULTILINE)) for block in BLOCKS] == [1] * len(BLOCKS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_guide_passes(name, tmp_path):
    example = NAMES[name]
    example(*[tmp_path] * len(inspect.signature(example).parameters))
