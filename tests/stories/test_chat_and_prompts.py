"""A chat with a tool that outlives its kernel, and a prompt of one's own in three versions (E55, E77, E78)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_client.manager import start_new_kernel

from tests.stories.conftest import Notebook
from tests.support.kernel import LIMIT_S, Kernel
from tests.support.openai_server import Answer, OpenAIServer, Request

pytestmark = pytest.mark.usefixtures("warm_kernels")


def count_lines(text: str) -> int:
    """The lines that are not blank."""
    return sum(bool(line.strip()) for line in text.splitlines())


# --- (a) six turns with a tool, and the kernel restarted after the third ----------------------------------------------

ITEMS = ("ropes", "buoys", "lamps", "flags", "bells", "masts")
SHOP = '''
from ensemble_notebook import Agent, Ensemble, Task
def stock(item: str) -> str:
    """How many of an item there are."""
    return f"{len(item) * 7} {item}"
clerk = Agent(role="Clerk", goal="Help", system_prompt="You know the shop.", tools=stock, llm="openai:test-model")
shop = Ensemble(tasks=[Task(prompt="{message}", name="chat", agent=clerk)])
'''
FIRST = 'said = shop.run(message="Have you ropes?")'
NEXT = 'said = shop.run(message="Have you {}?", continue_from=said)'
AFTER = 'said = shop.run(message="Have you {}?", continue_from=-1)'
ROLES = ["system", *["user", "assistant", "tool", "assistant"] * 5, "user", "assistant", "tool"]
"""Of the last request: five whole turns, and the result of the sixth."""


def answer_as_models_do(request: Request) -> Answer:
    """It asks its tool, unless it sees answers of its own that no tool had a part in: then it goes on so."""
    roles = [each["role"] for each in request.messages]
    if roles[-1] == "tool":
        return Answer(f"There are {request.messages[-1]['content']}.")
    if "assistant" in roles and "tool" not in roles:
        return Answer("There should be some.")
    item = request.prompt.removeprefix("Have you ").rstrip("?")
    return Answer(None, calls=[(f"call_{len(roles)}", "stock", {"item": item})])


@pytest.fixture
def kernel(store_path: object, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel whose runs are remembered in a store of this test's own, and whose models are on loopback."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    kernel = Kernel(*start_new_kernel())
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


def list_roles(server: OpenAIServer) -> list[str]:
    return [each["role"] for each in server.requests[-1].messages]


def test_a_chat_with_a_tool_goes_on_after_the_kernel_was_restarted(kernel: Kernel, server: OpenAIServer) -> None:
    server.choose = answer_as_models_do

    def say(*cells: str) -> str:
        for cell in cells:
            assert kernel.run(cell)[1]["status"] == "ok"
        return kernel.value("said.raw")

    said = [say(SHOP, FIRST)]
    said += [say(NEXT.format(item)) for item in ITEMS[1:3]]
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=LIMIT_S)
    said += [say(SHOP, AFTER.format(ITEMS[3]))]
    said += [say(NEXT.format(item)) for item in ITEMS[4:]]
    assert said == [f"There are 35 {item}." for item in ITEMS]
    assert len(server.requests) == 12
    assert list_roles(server) == ROLES
    assert (count_lines(SHOP), count_lines(FIRST), count_lines(AFTER)) == (6, 1, 1)


# --- (b) a prompt of one's own for a small model, three versions over 40 rows -----------------------------------------

LETTERS = """
letters = [{"letter": f"Letter {n}: {('I want my money back', 'Send me more', 'Where are you?')[n % 3]}",
            "expected": ("complaint", "order", "question")[n % 3]} for n in range(40)]
"""
VERSIONS = """
from ensemble_notebook import Agent, Ensemble, Task, scorers
clerk = Agent(role="Clerk", goal="Sort", system_prompt="")
sort = Ensemble(tasks=[Task(prompt="Sort this: {letter}", name="sort", agent=clerk)], llm="openai:test-model")
result = sort.variants({
    "bare": {},
    "labels": {"task.sort.prompt": "complaint, order or question? {letter}"},
    "one word": {"task.sort.prompt": "complaint, order or question? {letter}\\nIn one word:"},
}).map(letters, score=scorers.equals())
result.compare()
"""
KINDS = {"money": "complaint", "more": "order", "Where": "question"}


def answer_as_small_models_do(request: Request) -> Answer:
    """It knows the kind, and says it as it was asked to: in words of its own, in a sentence, or in one word."""
    prompt = request.prompt
    kind = next(each for word, each in KINDS.items() if word in prompt)
    if prompt.endswith("In one word:"):
        return Answer(kind)
    number = int(prompt.partition("Letter ")[2].partition(":")[0])
    is_talkative = not prompt.startswith("complaint") or number % 2
    return Answer(f"This is a {kind}, I think." if is_talkative else kind)


def test_three_versions_of_a_prompt_are_compared_over_40_rows(notebook: Notebook) -> None:
    notebook.server.choose = answer_as_small_models_do
    notebook.run(LETTERS, VERSIONS)
    scores = notebook.value("result.frame.groupby('variant').is_equal.mean().to_dict()")
    assert scores == {"bare": 0.0, "labels": 0.5, "one word": 1.0}
    assert len(notebook.server.requests) == 120
    sent = {request.prompt for request in notebook.server.requests}
    assert "complaint, order or question? Letter 0: I want my money back\nIn one word:" in sent
    assert "Sort this: Letter 0: I want my money back" in sent
    assert {len(request.messages) for request in notebook.server.requests} == {1}  # no system prompt, and nothing else
    assert "{+" in notebook.value("str(result.diff('labels', 'one word', row=0).prompts)")
    assert count_lines(VERSIONS) == 9
