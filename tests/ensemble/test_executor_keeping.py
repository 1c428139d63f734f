"""What is kept of rows that run elsewhere: recordings, memories; and what is refused, since it would be lost (E139)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, InMemoryStore, SqliteMemory, Task, TaskInput, ValidationError
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from tests.support.openai_server import Answer, OpenAIServer, Request


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def choose(request: Request) -> Answer:
    """A call of a tool, and then what the last message says, in other words."""
    last = request.messages[-1]
    if last["role"] == "user":
        return Answer(None, calls=[("double", {"text": f"{last['content'][-1]} & co"})])
    return Answer(f"It is {last['content']}")


def double(text: str) -> str:
    """Say it twice."""
    return f"{text} {text}"


def ask(server: OpenAIServer) -> Ensemble:
    agent = Agent(role="Writer", goal="Write", tools=[double], llm=f"openai:m@{server.url}")
    return Ensemble(tasks=[Task(description="Say {word}", expected_output="{word}", agent=agent)])


WORDS = [{"word": each} for each in "abc"]


@pytest.mark.parametrize("is_nested", [False, True])
def test_recording_has_the_rows_of_an_executor_and_answers_for_them_e139(
    threads: ThreadPoolExecutor, tmp_path: Path, is_nested: bool
) -> None:
    file = tmp_path / "rows.yaml"
    with OpenAIServer(choose=choose) as server:
        ensemble = ask(server)

        def run(rows: Any, executor: Any = None, **settings: Any) -> list[str]:
            def work(given: TaskInput) -> str:
                return "\n".join(ensemble.map(rows, executor=executor).frame.raw)

            if is_nested:
                outer = Ensemble(tasks=[Task.of("Map", name="map", handler=work)])
                return outer.run(**settings).raw.splitlines()
            return ensemble.map(rows, executor=executor, **settings).frame.raw.tolist()

        recorded = run(WORDS, threads, record=file)
        asked = len(server.requests)
        assert recorded == [f"It is {each} & co {each} & co" for each in "abc"]
        assert asked == 6
        replayed = run([*reversed(WORDS)], replay=file)
        assert replayed == [*reversed(recorded)]
        assert len(server.requests) == asked
    text = file.read_text()
    assert [text.count(f"\nexchange: {number}\n") for number in range(1, 8)] == [1] * 6 + [0]
    assert text.count("\nllm: ") == 1


def test_replay_is_refused_for_rows_elsewhere_also_around_the_map_e139(
    threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    def work(given: TaskInput) -> str:
        return str(len(ensemble.map(WORDS, executor=threads)))

    with OpenAIServer(choose=choose) as server:
        ensemble = ask(server)
        outer = Ensemble(tasks=[Task.of("Map", name="map", handler=work)])
        outer.run(record=tmp_path / "file.yaml")
        asked = len(server.requests)
        with pytest.raises(Exception, match="would ask models, and pay, for what the recording has"):
            outer.run(replay=tmp_path / "file.yaml")
        assert len(server.requests) == asked


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"replay": "file.yaml"}, r"would ask models, and pay, .* Leave out executor= or replay="),
        ({"reuse": True}, r"Workers don't have the run store: .* Leave out executor= or reuse="),
        (
            {"resume": "abc"},
            r"in rows that have no end .* To take over the rows of a result: resume=RESULT",
        ),
    ],
)
def test_refusal_says_what_would_be_lost_e139(
    threads: ThreadPoolExecutor, settings: dict[str, Any], message: str
) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}", handler=lambda given: "x")])
    with pytest.raises(ValidationError, match=message):
        ensemble.map(WORDS, executor=threads, **settings)


def remember(memory: Any) -> Ensemble:
    task = Task.of("Note {word}", name="note", memory="notes", handler=lambda given: f"noted {given.inputs['word']}")
    return Ensemble(tasks=[task], memory=memory)


def test_memory_in_a_file_is_shared_by_rows_on_this_machine_e139(threads: ThreadPoolExecutor, tmp_path: Path) -> None:
    memory = SqliteMemory(tmp_path / "notes.db")
    result = remember(memory).map(WORDS, executor=threads)
    assert result.failures == ()
    kept = " ".join(each.text for each in memory.retrieve("notes", "", 9))
    assert all(f"noted {each['word']}" in kept for each in WORDS)


class Library:
    """A memory that is only read, of a kind that somebody has made."""

    read_only = True

    def store(self, scope: str, entry: MemoryEntry) -> None:
        raise AssertionError("it is only read")

    def retrieve(self, scope: str, query: str, limit: int) -> list[MemoryEntry]:
        return [MemoryEntry(text="The tide is low", created_at=None)]


def test_memory_that_is_only_read_goes_along_e139(threads: ThreadPoolExecutor) -> None:
    with OpenAIServer(default=Answer("ok")) as server:
        task = Task.of("Say {word}", memory="library")
        ensemble = Ensemble(tasks=[task], memory=Library(), llm=f"openai:m@{server.url}")
        result = ensemble.map(WORDS, executor=threads)
        assert [each.status for each in result] == ["completed"] * 3
        assert all("The tide is low" in each.prompt for each in server.requests)


def put_inside(ensemble: Ensemble) -> Ensemble:
    return Ensemble(tasks=[Task(name="outer", ensemble=ensemble, inputs={"word": "x"})])


@pytest.mark.parametrize(
    "make_ensemble",
    [
        lambda _: remember(InMemoryStore()),
        lambda folder: remember(SqliteMemory(folder / "notes.db")),
        lambda _: put_inside(remember(InMemoryStore())),
    ],
    ids=["here", "file", "inside"],
)
def test_memory_that_rows_would_lose_is_refused_e139(make_ensemble: Callable[[Path], Ensemble], tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(ValidationError, match=r"what a row stores would be lost .* SqliteMemory\(path\)"),
    ):
        make_ensemble(tmp_path).map([{"word": "a"}], executor=SimpleNamespace(submit=threads.submit))
