"""What an earlier version has left in recordings and in the store still serves (E42, C33, C34)."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, Fail, ScriptedChatModel, Task, TaskExecutionError, TaskInput, ToolUse
from ensemble_notebook.domain.fingerprints.task_keys import TaskKeys, TaskStart
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

OPTIONAL = re.compile(r',\s*"scope":\s*\{[^}]*\},\s*"priority":\s*\{[^}]*\}')


def make_peers(*replies: object, mate: tuple[str, ...] = ()) -> Ensemble:
    """A task whose agent says this, and has a peer who says that."""
    lead = Agent(role="Lead", goal="Lead", llm=ScriptedChatModel(replies=list(replies)), allow_delegation=True)
    helper = Agent(role="Mate", goal="Help", llm=ScriptedChatModel(replies=list(mate)))
    return Ensemble(agents=[lead, helper], tasks=[Task.of("Cook", name="cook", agent=lead)])


def make_team(*replies: object, mate: tuple[str, ...] = ()) -> Ensemble:
    """The same with a manager."""
    helper = Agent(role="Mate", goal="Help", llm=ScriptedChatModel(replies=list(mate)))
    manager = ScriptedChatModel(replies=list(replies))
    return Ensemble(
        tasks=[Task.of("Cook", name="cook", agent=helper)], workflow="hierarchical", manager_llm=manager, name="team"
    )


Make = Callable[..., Ensemble]
WAYS = pytest.mark.parametrize("make, tool", [(make_peers, "delegate"), (make_team, "delegate_task")])


def ask(tool: str) -> ToolUse:
    return ToolUse(tool, {"agent_role": "Mate", "task_description": "Peel"})


def make_older(text: str) -> str:
    """What the earlier version wrote."""
    older, count = OPTIONAL.subn("", text)
    assert count == 1
    return older


@WAYS
def test_an_older_recording_is_replayed_e42(make: Make, tool: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    recorded = make(ask(tool), "Done.", mate=("Peeled.",)).run(record=file)
    file.write_text(make_older(file.read_text(encoding="utf-8")), encoding="utf-8")
    assert make().run(replay=file).raw == recorded.raw == "Done."


@WAYS
def test_an_older_run_is_resumed_without_asking_again_c33(make: Make, tool: str, store_path: Path) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        make(ask(tool), Fail(401), mate=("Peeled.",)).run()
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    with closing(sqlite3.connect(store_path)) as database, database:
        for number, data in database.execute("SELECT number, data FROM exchanges").fetchall():
            text = (zlib.decompress(data) if data.startswith(b"x") else data).decode()
            if tool in text and '"parameters"' in text:
                older = make_older(text).encode()
                database.execute("UPDATE exchanges SET data = ? WHERE number = ?", (older, number))
    output = make("Done.").run(resume=stopped)
    counts = output.metrics.llm_call_count, output.metrics.delegation_count
    assert (output.raw, *counts) == ("Done.", 1, 1)


def say(task: TaskInput) -> str:
    return "Said."


def find_older_key(task: Task, *, is_read: bool = False) -> str:
    """The key of a time when all inputs counted; of the first item where it runs for each."""
    graph = build_graph(Ensemble(tasks=[task]))
    texts = {"description": task.description, "expected_output": task.expected_output}
    item = None if task.for_each is None else INPUTS["rows"][0]
    key = TaskKeys(graph).make_key(TaskStart(node=graph.tasks[0], **texts, inputs=INPUTS, item=item))
    return key.with_reads(key.older_reads[-1 if is_read else 0]).key.rpartition("/")[2]


INPUTS: dict[str, Any] = {"rows": ["one"], "b": 2}
TASK = Task.of("Say it", name="say", handler=say)
ITEMS = Task.of("Say it", name="say", handler=say, for_each="{rows}")


@pytest.mark.parametrize(
    "task, path, is_read", [(TASK, "say", False), (ITEMS, "say[0]", False), (ITEMS, "say[0]", True)]
)
def test_a_handler_of_a_time_when_all_inputs_counted_is_reused_c34(
    task: Task, path: str, *, is_read: bool, store_path: Path
) -> None:
    def tell(**inputs: Any) -> str:
        frame = ensemble.run({**INPUTS, **inputs}, reuse=True).frames.tasks
        return str(frame.set_index("task")["reuse_reason"][path])

    ensemble = Ensemble(tasks=[task], name="say")
    first = ensemble.run(INPUTS)
    with closing(sqlite3.connect(store_path)) as database, database:
        (parts,) = database.execute("SELECT parts FROM results WHERE path = ?", (path,)).fetchone()
        older = {name: text for name, text in json.loads(parts).items() if name != "reads"}
        key = find_older_key(task, is_read=is_read)
        database.execute("UPDATE results SET key = ?, parts = ? WHERE path = ?", (key, json.dumps(older), path))
    assert tell() == f"unchanged since run {first.run_id}"
    assert tell() == f"unchanged since run {first.run_id}"
    assert "the input b changed 2 -> 3" in tell(b=3)
