"""Reasoning at the beginning of a reply, told from the reply."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.reasoning import read_streamed_answer, split_reasoning

PIECES = ["<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>", "<b>", '"', "`", "'", "> "]
texts = st.lists(st.sampled_from([*PIECES, "```", "\n", " ", "7", "hm, ", "List<int>", "{}"]), max_size=12).map("".join)


@given(texts)
def test_nothing_is_lost_and_nothing_changed(text: str) -> None:
    reasoning, answer = split_reasoning(text)
    assert reasoning + answer == text


@given(texts, st.text("ab <>/\n`", max_size=20))
def test_behind_another_word_only_a_lone_end_counts(text: str, rest: str) -> None:
    said = f"So: {text.replace('</think>', '')}{rest}"
    assert split_reasoning(said) == ("", said)


@given(texts)
def test_the_answer_of_a_block_only_grows_while_it_streams(text: str) -> None:
    whole = f"<think>{text.replace('<', '').replace('>', '')}</think> {text}"
    final, told = split_reasoning(whole)[1], ""
    for end in range(len(whole) + 1):
        answer = read_streamed_answer(whole[:end])
        assert answer.startswith(told) or told.startswith(answer)
        told = max(told, answer, key=len)
    assert final.startswith(told)


def test_a_hundred_thousand_marks_are_read_and_kept() -> None:
    for piece in ("<", "'", '"', "</think", "`</think>`", "<think>", "“", "<a ", "\n> "):
        text = piece * 100_000
        assert "".join(split_reasoning(text)) == text
        assert "".join(split_reasoning(f"<think>{text}")) == f"<think>{text}"
        assert "".join(split_reasoning(f"{text}</think>7")) == f"{text}</think>7"
