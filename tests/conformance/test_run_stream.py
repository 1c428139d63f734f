"""A stream that ends with its result (E80), through the public interface alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    DeadlineExceededError,
    Ensemble,
    EnsembleError,
    ExitReason,
    Fail,
    PromptTemplateError,
    Reply,
    RunEnded,
    RunStatus,
    RunStream,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskStarted,
    ToolUse,
)


def done(name: str, **fields: Any) -> Task:
    return Task.of(f"Do {name}", name=name, **{"handler": lambda _: name, **fields})


async def wait(_: TaskInput) -> None:
    await asyncio.Event().wait()


def fail(_: TaskInput) -> None:
    raise LookupError("no such thing")


def words(ensemble: Ensemble, **settings: Any) -> tuple[list[str], RunStream]:
    async def read() -> tuple[list[str], RunStream]:
        async with ensemble.stream(**settings) as run:
            return [piece async for piece in run.text()], run

    return asyncio.run(read())


def test_e80_the_output_is_there_after_the_last_event() -> None:
    async def read() -> None:
        async with Ensemble(tasks=[done("a"), done("b")]).stream() as run:
            assert run.output is None
            events = [event async for event in run]
            assert isinstance(events[-1], RunEnded)
            assert [event.seq for event in events] == list(range(len(events)))
            assert run.output is not None
            assert (run.output.raw, run.run_id) == ("b", events[0].run_id)
            assert [event async for event in run] == []  # and it is over

    asyncio.run(read())


def test_e80_a_failed_run_has_its_output_before_its_error_is_raised() -> None:
    seen = []

    async def read() -> None:
        async with Ensemble(tasks=[done("a"), done("b", handler=fail)]).stream() as run:
            seen.extend([event async for event in run])
            assert run.output is not None
            seen.append(run.output)

    with pytest.raises(TaskExecutionError, match="no such thing") as caught:
        asyncio.run(read())
    assert seen[-1] is caught.value.output
    assert (seen[-1].status, [each.name for each in seen[-1]]) == (RunStatus.FAILED, ["a"])


def test_e80_a_run_past_its_timeout_raises_at_the_end_of_the_block() -> None:
    with pytest.raises(DeadlineExceededError):
        words(Ensemble(tasks=[done("a", handler=wait)]), timeout=0.05)


def test_e80_leaving_early_stops_the_run() -> None:
    async def read() -> tuple[RunStream, int]:
        async with Ensemble(tasks=[done("a"), done("b", handler=wait)]).stream() as run:
            async for event in run:
                if isinstance(event, TaskStarted) and event.task == "b":
                    break
        return run, len(asyncio.all_tasks())

    run, task_count = asyncio.run(read())
    assert task_count == 1
    assert run.output is not None
    assert (run.output.exit_reason, run.output["a"].raw) == (ExitReason.INTERRUPTED, "a")


def test_e80_an_error_of_the_block_stops_the_run_and_stays_what_it_is() -> None:
    async def read(streams: list[RunStream]) -> None:
        async with Ensemble(tasks=[done("a", handler=wait)]).stream() as run:
            streams.append(run)
            raise KeyError("mine")

    streams: list[RunStream] = []
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(read(streams))
    assert streams[0].output is not None
    assert streams[0].output.exit_reason is ExitReason.INTERRUPTED


def test_e80_the_cancellation_of_the_reader_stops_the_run() -> None:
    async def main() -> RunStream:
        began: asyncio.Future[RunStream] = asyncio.Future()

        async def read() -> None:
            async with Ensemble(tasks=[done("a", handler=wait)]).stream() as run:
                async for event in run:
                    if isinstance(event, TaskStarted):
                        began.set_result(run)

        reading = asyncio.ensure_future(read())
        run = await began
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        return run

    run = asyncio.run(main())
    assert run.output is not None
    assert run.output.exit_reason is ExitReason.INTERRUPTED


def test_e80_a_stream_is_entered_once_and_read_inside() -> None:
    async def read() -> None:
        run = Ensemble(tasks=[done("a")]).stream()
        with pytest.raises(EnsembleError, match="async with"):
            await anext(aiter(run))
        async with run:
            pass
        with pytest.raises(EnsembleError, match="once for each run"):
            async with run:
                pass

    asyncio.run(read())


def test_e80_a_mistake_is_raised_by_the_call() -> None:
    with pytest.raises(PromptTemplateError, match="topic"):
        Ensemble(tasks=[Task.of("Write about {topic}")], llm="scripted").stream(topics="tides")


# --- The words of the final task --------------------------------------------------------------------------------------


def search(query: str) -> str:
    """Search the notes."""
    return f"notes about {query}"


def pair(*replies: object, **fields: Any) -> Ensemble:
    """A task with a model whose words are not wanted, and a last one with these replies."""
    writer = Agent(role="Writer", goal="Write", llm=ScriptedChatModel(replies=list(replies)), tools=[search])
    first = Task.of("Gather", name="gather", llm=ScriptedChatModel(replies=["Not this."]))
    return Ensemble(tasks=[first, Task.of("Write", name="write", agent=writer, context=first, **fields)])


def test_e80_text_is_the_words_of_the_final_task_as_they_come() -> None:
    pieces, run = words(pair("The tide turns twice."))
    assert len(pieces) > 1
    assert run.output is not None
    assert "".join(pieces) == run.output.raw == "The tide turns twice."


def test_e80_what_is_said_before_a_tool_call_is_a_paragraph_of_its_own() -> None:
    asks = Reply("Let me look.", calls=[ToolUse("search", {"query": "tides"})])
    assert "".join(words(pair(asks, "It turns."))[0]) == "Let me look.\n\nIt turns."


def test_e80_a_corrected_reply_follows_the_one_that_was_wrong() -> None:
    pieces, _ = words(pair("no JSON", '{"kind": "good"}', output_type={"kind": "good | bad"}))
    assert "".join(pieces) == 'no JSON\n\n{"kind": "good"}'


def test_e80_a_refused_request_adds_nothing() -> None:
    assert "".join(words(pair(Fail(429, retry_after=0.0), "It turns."))[0]) == "It turns."


def test_e80_the_answer_of_a_handler_comes_in_one_piece() -> None:
    assert words(Ensemble(tasks=[done("a"), done("b")]))[0] == ["b"]
    assert words(Ensemble(tasks=[done("a"), done("b", handler=lambda _: "")]))[0] == []


def test_e80_where_several_tasks_end_the_run_the_answer_comes_at_its_end() -> None:
    said = Task.of("Say", name="said", llm=ScriptedChatModel(replies=["hello there"]))
    pieces, run = words(Ensemble(tasks=[done("a"), said], workflow="parallel"))
    assert run.output is not None
    assert pieces == [run.output.raw]
