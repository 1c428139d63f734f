"""Answers with citations: an agent looks into a vector store, and a guardrail lets no source pass that is not in it."""

from __future__ import annotations

import re

from langchain_core.embeddings import Embeddings

from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer

STORE = """
from langchain_core.vectorstores import InMemoryVectorStore

shelf = InMemoryVectorStore(embeddings)
pages = {"almanac.txt": "High water in Cuxhaven is at noon.", "walls.txt": "The lighthouse is red."}
shelf.add_texts(pages.values(), [{"source": name} for name in pages], ids=list(pages))
notes = shelf.as_retriever(search_kwargs={"k": 1})

def is_cited(output):
    unknown = set(output.parsed_output["sources"]) - set(pages)
    return f"there is no {unknown}: cite the notes" if unknown else None
"""
CELL = """
%%ensemble -o reply
llm: openai:test-model
agents:
  Librarian: {goal: Answer from the notes alone, tools: notes}
tasks:
  find:
    description: When is high water in Cuxhaven?
    agent: Librarian
    output_type: {answer: str, sources: [str]}
    output_guardrails: is_cited
    max_guardrail_retries: 1
"""


class WordCounts(Embeddings):
    """How often each word of a small vocabulary is there: near is what shares words."""

    WORDS = ("high", "water", "cuxhaven", "lighthouse", "red")

    def embed_query(self, text: str) -> list[float]:
        words = re.findall(r"\w+", text.lower())
        return [words.count(each) + 0.01 for each in self.WORDS]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(each) for each in texts]


def answer(asked: Asked) -> Answer | str:
    """The model: it looks into the notes each time, and cites something else until it is told not to."""
    if "[source: " not in asked.last:
        return Answer(None, calls=[("notes", {"query": "high water in Cuxhaven"})])
    source = "almanac.txt" if "cite the notes" in asked.said else "wikipedia"
    return f'{{"answer": "At noon.", "sources": ["{source}"]}}'


def test_answer_cites_only_what_the_store_has(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.names["embeddings"] = WordCounts()
    notebook.run(STORE, CELL)
    assert notebook.value("reply['find'].parsed_output") == {"answer": "At noon.", "sources": ["almanac.txt"]}
    found = notebook.value("reply.frames.tool_calls.result.tolist()")
    assert found == ["[source: almanac.txt]\nHigh water in Cuxhaven is at noon."] * 2
    assert "there is no {'wikipedia'}: cite the notes" in notebook.server.requests[2].prompt
    assert notebook.value("reply.frames.tasks[['attempt_count', 'total_tokens']].values.tolist()") == [[2, 72]]
    assert """draft 1 · sent back: "there is no {'wikipedia'}: cite the notes\"""" in notebook.pictures()
