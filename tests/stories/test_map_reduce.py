"""Thirty documents are summarised side by side and read together; then one of them changes."""

from __future__ import annotations

import re

from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer

DOCUMENTS = """
import pandas as pd

documents = pd.DataFrame({"text": [f"A letter from port {number}" for number in range(30)]})
"""
CELL = """
%%ensemble -o digest --reuse
llm: openai:test-model
max_concurrency: 5
tasks:
  summarise: {for_each: documents, description: "Summarise {item.text}"}
  reduce: {description: What do all of them say?, context: summarise}
"""


def test_thirty_documents_are_read_side_by_side_and_only_the_changed_one_again(notebook: Notebook) -> None:
    def answer(asked: Asked) -> Answer:
        """The model: a summary of each, none before five were asked for, and how many different ones there are."""
        if asked.task.startswith("Summarise"):
            text = asked.task.replace("Summarise", "In short:")
            return Answer(text, until=lambda: notebook.server.max_in_flight >= 5)
        summaries = set(re.findall(r"In short: .*", asked.last))
        return Answer(f"{len(summaries)} letters, {sum('pier' in each for each in summaries)} of a pier.")

    notebook.answer(answer)
    notebook.run(DOCUMENTS, CELL)
    assert notebook.value("digest.raw") == "30 letters, 0 of a pier."
    assert notebook.value("digest['summarise'].parsed_output[29]") == "In short: A letter from port 29"
    assert len(notebook.server.requests) == 31
    assert notebook.server.max_in_flight == 5
    tokens = notebook.value("digest.frames.tasks.set_index('task').total_tokens")
    assert (tokens["summarise"], tokens["reduce"]) == (30 * 18, 18)
    assert "330 → 210" in notebook.pictures()  # one line stands for all thirty

    notebook.run("documents.loc[7, 'text'] = 'A letter from pier 7'", CELL)
    assert notebook.value("digest.raw") == "30 letters, 1 of a pier."
    ran = notebook.value("digest.frames.tasks.query('~reused').task.tolist()")
    assert ran == ["summarise", "summarise[7]", "reduce"]
    used = notebook.value("digest.frames.runs[['total_tokens', 'saved_tokens']].values.tolist()")
    assert used == [[2 * 18, 29 * 18]]
    assert "29 of 31 tasks reused: 522 tokens" in notebook.pictures()
    assert len(notebook.server.requests) == 33
