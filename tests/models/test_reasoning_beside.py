"""Reasoning that a provider sends beside the text of a reply, in the forms of their LangChain classes (E14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ensemble_notebook import Ensemble, RunStatus, Task
from ensemble_notebook.models.langchain.replies import to_model_reply

TEXT = {"type": "text", "text": "Seven."}
FORMS: list[dict[str, Any]] = [
    {"content": "Seven.", "additional_kwargs": {"reasoning_content": "hm, 7"}},
    {"content": "Seven.", "additional_kwargs": {"reasoning": "hm, 7", "reasoning_details": [{"text": "hm, 7"}]}},
    {"content": "Seven.", "additional_kwargs": {"reasoning_details": [{"type": "reasoning.text", "text": "hm, 7"}]}},
    {"content": "Seven.", "additional_kwargs": {"reasoning": {"summary": [{"type": "summary_text", "text": "hm, 7"}]}}},
    {"content": [{"type": "thinking", "thinking": "hm, 7", "signature": "c2ln"}, TEXT]},
    {"content": [{"type": "reasoning", "reasoning": "hm, "}, {"type": "reasoning", "reasoning": "7"}, TEXT]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm, 7"}]}, TEXT]},
    {"content": [{"type": "reasoning_content", "reasoning_content": {"text": "hm, 7", "signature": "c2ln"}}, TEXT]},
    {"content": [{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm, 7"}]}, TEXT]},
]
NONE: list[dict[str, Any]] = [
    {"content": "Seven.", "additional_kwargs": {"refusal": None, "reasoning_content": None}},
    {"content": [{"type": "redacted_thinking", "data": "c2ln"}, TEXT]},
    {"content": [{"type": "reasoning", "summary": [], "encrypted_content": "c2ln"}, TEXT]},
    {
        "content": "Seven.",
        "additional_kwargs": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln"}]},
    },
]


@pytest.mark.parametrize("form", FORMS)
def test_the_words_are_the_reasoning_of_the_reply(form: dict[str, Any]) -> None:
    reply = to_model_reply(AIMessage(**form))
    assert (reply.reasoning, reply.text) == ("hm, 7", "Seven.")


@pytest.mark.parametrize("form", NONE)
def test_what_has_no_words_is_none(form: dict[str, Any]) -> None:
    reply = to_model_reply(AIMessage(**form))
    assert (reply.reasoning, reply.text) == ("", "Seven.")


@pytest.mark.parametrize(
    "form", [{"content": "", "additional_kwargs": FORMS[0]["additional_kwargs"]}, {"content": FORMS[4]["content"][:1]}]
)
def test_nothing_beside_it_is_no_empty_reply_and_asked_for_once_more(form: dict[str, Any], tmp_path: Path) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage(**form), AIMessage("Seven.")]))
    ensemble = Ensemble(tasks=[Task.of("Add", llm=model)])
    output = ensemble.run(record=tmp_path / "add.yaml")
    for each in (output, ensemble.run(replay=tmp_path / "add.yaml")):
        assert (each.raw, each.status) == ("Seven.", RunStatus.COMPLETED)
        assert ["nothing but reasoning" in warning for warning in each.warnings] == [True]
        assert list(each.frames.messages.reasoning.dropna()) == ["hm, 7"]
