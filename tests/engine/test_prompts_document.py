"""What docs/prompts.md shows of prompts of one's own is what a model gets: each cell is run (E77)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import ReviewDecision, ScriptedChatModel
from ensemble_notebook.cell.cell_reader import read_cell

TEXT = (Path(__file__).parents[2] / "docs" / "prompts.md").read_text(encoding="utf-8")
CONVERSATIONS = re.findall(r"````json\n(.*?)````\n\n````yaml\n(.*?)````\n\n````text\n(.*?)````\n", TEXT, re.DOTALL)
EXAMPLES = re.findall(r"(?<!]\n````\n\n)````yaml\n(llm: model\n.*?)````\n\n````text\n(.*?)````\n", TEXT, re.DOTALL)
ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


def make_names() -> dict[str, Any]:
    replies = {
        "is no JSON": '{"urgent": true}',
        "Sort this": "Fifty euros.",
        "fits this schema": '{"urgent": true}',
        "Revision Instructions": "Berth 14 moves.",
        "complaint or an order": "It is a complaint.",
        "Sum up this conversation": "They asked for berth 14, which is free until May.",
        "Summarise": "Berth 14 moves at night, and two fenders burst.",
    }
    answers = [ReviewDecision.retry("Please be shorter."), ReviewDecision.approve()]
    return {
        "model": ScriptedChatModel.match(replies, default="Fifty euros."),
        "letter": "Berth 14 moved so much that two of our fenders burst.",
        "send_back": lambda _: answers.pop(0),
    }


def write_request(model: ScriptedChatModel, number: int = -1) -> str:
    parts = []
    for each in model.calls[number].messages:
        calls = [f"{call['name']}({json.dumps(call['args'])})" for call in getattr(each, "tool_calls", ())]
        parts.append(f"[{ROLES[each.type]}]\n{each.content or ' '.join(calls)}")
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("cell, shown", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_last_request_of_a_cell_is_what_the_document_shows(cell: str, shown: str) -> None:
    names = make_names()
    read_cell(cell, names).build(names).run()
    assert write_request(names["model"]) == shown


@pytest.mark.parametrize("messages, cell, shown", CONVERSATIONS, ids=range(len(CONVERSATIONS)))
def test_the_requests_of_a_conversation_are_what_the_document_shows(messages: str, cell: str, shown: str) -> None:
    names = make_names()
    read_cell(cell, names).build(names).run(continue_from=json.loads(messages))
    model = names["model"]
    assert "\n---\n\n".join(write_request(model, number) for number in range(len(model.calls))) == shown


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5
    assert len(CONVERSATIONS) == 1
