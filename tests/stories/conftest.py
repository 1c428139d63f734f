"""A notebook for stories: a real shell whose `openai:` models are served on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.notebook.conftest import Shell, ip, shell
from tests.support.openai_server import Answer, OpenAIServer, Request

__all__ = ["ip", "shell"]


class Asked(NamedTuple):
    """What the model is asked.

    Attributes:
        role: of the agent.
        task: what it is to do, without what it reads beside it.
        last: the last message: the prompt, or the result of a tool.
        said: the whole conversation.
    """

    role: str
    task: str
    last: str
    said: str


class Notebook:
    """What a story is told in.

    Attributes:
        shell: where cells run, with runs shown as pictures.
        server: the model behind `openai:test-model`, with all that it was asked.
        names: the variables of the cells.
    """

    def __init__(self, shell: Shell, server: OpenAIServer) -> None:
        self.shell = shell
        self.server = server
        self.names: dict[str, Any] = shell.names

    def run(self, *cells: str) -> None:
        """Run cells, which must not fail."""
        for cell in cells:
            self.shell.run(cell.strip()).raise_error()

    def value(self, expression: str) -> Any:
        """What a line of a cell gives."""
        result = self.shell.run(expression)
        result.raise_error()
        return result.result

    def answer(self, choose: Callable[[Asked], Answer | str]) -> None:
        """Have the model answer by what it is asked."""

        def decide(request: Request) -> Answer:
            said = "\n".join(str(each.get("content") or "") for each in request.messages)
            role = said.partition("You are ")[2].partition(".")[0]
            task = said.partition("## Task\n")[2].partition("\n\n## ")[0]
            chosen = choose(Asked(role, task, request.prompt, said))
            return Answer(chosen) if isinstance(chosen, str) else chosen

        self.server.choose = decide

    def pictures(self) -> str:
        """The texts that the cells show now."""
        return "\n".join(each.get("text/plain", "") for each in self.shell.seen())


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Running, on loopback."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def notebook(shell: Shell, server: OpenAIServer, store_path: object, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A notebook whose runs are remembered in a store of this test's own."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    return Notebook(shell, server)
