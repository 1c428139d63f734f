"""The guide to the cell language is true and whole: its examples are cells, and they hold every word there is."""

import re
from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.vocabulary import SCHEMAS
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel

GUIDE = (Path(__file__).parents[2] / "docs" / "cell.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.+?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
WORDS = sorted({word for schema in SCHEMAS for word in schema.known})


class Prompts:
    def system(self, workers):
        return ""

    def user(self, tasks):
        return ""


def say(value):
    """What stands for every function in the guide."""


def decide(request):
    """What stands for every reviewer."""


def refund(order: str):
    """What stands for every tool that is reviewed."""


NAMES = {
    "refund": refund,
    **dict.fromkeys(("search", "count", "watch", "is_allowed", "is_polite", "is_night", "balance"), say),
    "decide": decide,
    "keep_it_short": lambda request, context: None,
    "prompts": Prompts(),
    "model": ScriptedChatModel(),
    "bank": object(),
    "documents": [{"text": "Low tide."}, {"text": "High tide."}],
    "research": Ensemble(tasks=[Task.of("Find facts about {topic}. Be {tone}.")]),
}


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_is_a_cell(example):
    cell = read_cell(example, NAMES, needs_inputs=False)
    assert cell.plan.total_tasks > 0
    assert cell.notices == ()


@pytest.mark.parametrize("word", WORDS)
def test_every_word_of_the_language_has_an_example(word):
    assert any(re.search(rf"\b{word}: ", f"{example} ".replace("\n", " ")) for example in EXAMPLES)
