"""A cell moves from `openai:` to `anthropic:` by one word, and everything else stays as it was (E82).

The function and the cell have 10 lines; with pydantic-ai 2.68, which moves by one word, too, there are 12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stories.conftest import Notebook
from tests.support.anthropic_server import AnthropicServer
from tests.support.openai_server import Answer

if TYPE_CHECKING:
    import pytest

TOOL = '''
def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} weighs 3 kg"
'''
CELL = """
%%ensemble -o dinner
llm: openai:gpt-4o-mini
agents:
  Cook: {goal: Cook what there is, tools: weigh}
tasks:
  dish: {description: Choose a dish, agent: Cook, output_type: {name: str, kg: float}}
  menu: {description: Write the menu, agent: Cook, context: dish}
"""


def script(model: str) -> list[Answer]:
    """What either model says."""
    asks = Answer(None, calls=[("weigh", {"what": "a leek"})], model=model, usage=(100, 20))
    texts = ('{"name": "soup", "kg": 3}', "Leek soup.")
    return [asks, *(Answer(text, model=model, usage=(200, 30)) for text in texts)]


def test_one_word_moves_a_cell_to_another_provider(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    with AnthropicServer() as other:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-other")
        notebook.server.script(*script("gpt-4o-mini"))
        other.script(*script("claude-3-5-haiku-20241022"))
        moved = CELL.replace("openai:gpt-4o-mini", "anthropic:claude-3-5-haiku-20241022")
        notebook.run(TOOL, CELL, moved.replace("-o dinner", "-o supper"))
        assert (len(notebook.server.requests), len(other.requests)) == (3, 3)
    for name in ("dinner", "supper"):
        assert notebook.value(f"{name}.raw") == "Leek soup."
        assert notebook.value(f"{name}['dish'].parsed_output") == {"name": "soup", "kg": 3}
        assert notebook.value(f"{name}['dish'].tool_call_count") == 1
    assert notebook.value("float(supper.metrics.cost)") > 0  # of a server on loopback nobody knows the price
    assert notebook.value("supper.frames.llm_calls.provider.unique().tolist()") == ["anthropic"]
