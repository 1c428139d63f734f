"""E47: half of a character is U+FFFD in all that is sent to a model and kept of a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Phase,
    ScriptedChatModel,
    Task,
    TaskInput,
    ValidationError,
    load_traces,
)
from ensemble_notebook.domain.value_text import mend_text, mend_value, read_json
from ensemble_notebook.trace.row_files import read_row_file
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

HALF, WHOLE = "a\ud800b", "a\ufffdb"


def tell(query: str) -> str:
    """Tell something."""
    return HALF


def fail(query: str) -> str:
    """Fail."""
    raise ValueError(HALF)


def ask_server(server: OpenAIServer, **settings: Any) -> Ensemble:
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k", max_retries=0)  # type: ignore[arg-type]
    agent = Agent(role="Teller", goal=f"Tell {HALF}", tools=[tell, fail], llm=model)
    return Ensemble(tasks=[Task.of("Say {x}", name="say", agent=agent, output_type={"word": "str"})], **settings)


async def read_stream(ensemble: Ensemble, **settings: Any) -> EnsembleOutput:
    async with ensemble.stream({"x": HALF}, **settings) as run:
        async for _ in run:
            pass
    return run.output


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("reply", [f'{{"word": "{HALF}"}}', '{"word": "a\\ud800b"}'])
def test_e47_what_is_sent_and_kept_and_replayed_has_whole_characters(
    server: OpenAIServer, tmp_path: Path, reply: str, streams: bool
) -> None:
    calls = [("tell", {"query": HALF}), ("fail", {"query": HALF})]
    server.script(Answer(None, calls=calls), Answer(reply))
    record = tmp_path / "talk.jsonl"
    team = ask_server(server)
    output = asyncio.run(read_stream(team, record=record)) if streams else team.run({"x": HALF}, record=record)
    assert output.status == "completed"
    assert output.task_outputs[0].parsed_output == {"word": WHOLE}
    sent = [text for request in server.requests for text in list_texts(request.body)]
    assert all(text == mend_text(text) for text in sent)
    assert sum(WHOLE in text for text in sent) >= 5
    for message in output.task_outputs[0].messages:
        assert message.text == mend_text(message.text)
    for ending in ("trace.json", "html"):
        assert WHOLE in output.export(tmp_path / f"run.{ending}").read_text(encoding="utf-8")
    asked = len(server.requests)
    assert ask_server(server).run({"x": HALF}, replay=record).raw == output.raw
    assert len(server.requests) == asked


def list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            return [value, *list_texts(json.loads(value))] if value[:1] == "{" else [value]
        except ValueError:
            return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in list_texts(each)]


def shout(given: TaskInput) -> str:
    return HALF


def give(given: TaskInput) -> dict[str, str]:
    return {"word": HALF}


def burn(given: TaskInput) -> str:
    raise ValueError(HALF)


def make_agent(text: str) -> Agent:
    return Agent(role="A", goal="G", llm=ScriptedChatModel(replies=[text] * 9))


@pytest.mark.parametrize(
    "task, column",
    [
        (Task.of("Say {x}", handler=shout), "raw"),
        (Task.of("Say {x}", handler=burn), "error"),
        (Task.of("Say {x}", handler=give, output_type={"word": "str"}), "word"),
        (Task.of("Say {x}", agent=make_agent(HALF)), "raw"),
        (
            Task.of(
                "Say {x}",
                output_type={"word": "str"},
                agent=make_agent('{"word": "a\\ud800b"}'),
            ),
            "word",
        ),
        (Task.of("Say {x}", llm="scripted"), "x"),
        (Task.of(f"Say {HALF}{{x}}", llm="scripted"), "raw"),
        (Task.of("Say {x}", llm="scripted", output_guardrails=[lambda output: HALF]), "error"),
    ],
)
def test_e47_the_table_of_a_map_has_whole_characters(task: Task, column: str, tmp_path: Path) -> None:
    result = Ensemble(tasks=[task]).map([{"x": HALF, HALF: 1}], score={"said": lambda output: HALF})
    assert WHOLE in result.frame[column].iloc[0]
    assert WHOLE in result.frame.columns
    for ending in ("csv", "jsonl", "parquet", "trace.json"):
        result.export(tmp_path / f"rows.{ending}")
    assert read_row_file(tmp_path / "rows.jsonl")["input_x"].tolist() == [WHOLE]


@pytest.mark.parametrize("value", [HALF, {"deep": [HALF]}, [HALF], pd.Series([HALF], dtype=object, name="n")])
def test_e47_inputs_of_every_form_are_sent_with_whole_characters(value: Any) -> None:
    output = Ensemble(tasks=[Task.of("Say {x}")], llm="scripted").run({"x": value})
    assert WHOLE in output.raw
    assert output.raw == mend_text(output.raw)


def test_e47_items_variants_and_loaded_runs_have_whole_characters(store_path: Path) -> None:
    tasks = [
        Task.of("List", name="list", handler=lambda given: [HALF, HALF]),
        Task.of("Say {item} {x}", name="say", for_each="list", llm="scripted"),
    ]
    rows = pd.DataFrame({"y": pd.Series([1], dtype=object).array}, index=pd.Index([HALF], dtype=object))
    result = Ensemble(tasks=tasks).variants({HALF: {"x": HALF}}).map(rows)
    assert result.frame.index.get_level_values("variant").tolist() == [WHOLE]
    assert result.frame["raw"].iloc[0] == mend_text(result.frame["raw"].iloc[0])
    wait_for_store()
    assert result.run_id is not None
    loaded = load_traces(store_path).load_map(result.run_id)
    assert loaded.frame["raw"].tolist() == result.frame["raw"].tolist()


def test_e47_pairs_make_a_character_and_all_else_stays() -> None:
    assert mend_text("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
    assert mend_value({HALF: [HALF, 1, None, {"k": 2.5}]}) == {WHOLE: [WHOLE, 1, None, {"k": 2.5}]}
    assert read_json('"\\ud83d\\ude00 \\uD83d \\\\ud800"') == "\U0001f600 \ufffd \\ud800"
    assert mend_text(text := "grün 😀") is text


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: Task.of("Say", name=HALF), "Task name"),
        (lambda: Task.of("Say", memory=["notes", HALF]), "Task memory"),
        (lambda: Phase.of(HALF, Task.of("Say")), "Phase name"),
        (lambda: Ensemble(tasks=[Task.of("Say")], name=HALF), "Ensemble name"),
    ],
)
def test_e47_a_name_is_refused(make: Any, field: str) -> None:
    with pytest.raises(ValidationError, match=rf"{field} holds half of a character \(a lone surrogate\)\. Write the"):
        make()


def test_e47_tools_are_described_and_inputs_named_with_whole_characters(server: OpenAIServer, tmp_path: Path) -> None:
    def look(query: str) -> str:
        return query

    look.__doc__ = f"Look.\n\nArgs:\n    query: {HALF}"
    output = ask_server(server)
    agent = Agent(role="Teller", goal="Tell", tools=[look, Told()], llm=output.tasks[0].agent.llm)
    server.default = Answer("done")
    run = Ensemble(tasks=[Task.of("Say", agent=agent)]).run({HALF: 1})
    sent = json.dumps(server.requests[-1].body["tools"], ensure_ascii=False)
    assert sent.count(WHOLE) == 2
    assert HALF not in sent
    kept = json.loads(run.export(tmp_path / "run.trace.json").read_text())
    assert kept["inputs"] == {WHOLE: "1"}


class Told:
    name = "told"
    description = HALF

    def execute(self, text: str) -> str:
        """Tell."""
        return text
