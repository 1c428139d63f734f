"""C88 to C91: what a fork or a rerun has changed, written into the cell that its run came from."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import Ensemble, EnsembleOutput, ScriptedChatModel, Task, ValidationError, load_traces
from ensemble_notebook.cell.changed_cell import edit_cell
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall, ChangedSource, Reworded
from ensemble_notebook.ensemble.ensemble import start_run
from ensemble_notebook.ensemble.run_settings import RunArguments, RunSettings
from ensemble_notebook.trace.store.run_facts import RunOrigin
from tests.support.openai_server import OpenAIServer
from tests.support.store import wait_for_store

CELL = """# A team
agents:
  Critic:   # who judges
    goal: Judge {topic} texts   # keep
    background: >
      You are kind and
      patient.
tasks:
  gather: Collect facts about {topic}   # first
  draft:
    description: |
      Write a draft about {topic}.

      Be short.
    expected_output: 'A draft, it''s all'
    context: gather
  judge:
    description: Judge the draft
    agent: Critic
    context: [draft]
inputs:
  topic: tides
"""
SHARED = CELL.replace(
    "inputs:", "  again:\n    description: Judge it again\n    agent: Critic\n    context: [judge]\ninputs:"
)
KIND = ("You are kind and", "You are strict and")


def run_cell(llm: str, text: str, options: str = "", namespace: dict[str, Any] | None = None) -> EnsembleOutput:
    options = f"--llm {llm} {options}".strip()
    ensemble = Ensemble.from_yaml(f"%%ensemble {options}\n{text}", namespace)
    origin = RunOrigin(cell="In[1]", text=text, options=options)
    return start_run(ensemble, RunArguments({}, {}, RunSettings(origin=origin))).result()


def call_of(output: EnsembleOutput, task: str) -> str:
    spans = output.frames.spans
    return str(spans[(spans.kind == "llm") & (spans.task == task)].index[-1])


def prompts_of(server: OpenAIServer, task: str) -> tuple[str, str]:
    """What the server was sent last whose own words begin like this."""
    sent = [{part["role"]: part["content"] for part in each.body["messages"]} for each in server.requests]
    found = next(each for each in reversed(sent) if f"## Task\n{task}" in each["user"])
    return found["system"], found["user"]


def changed_lines(text: str, before: str = CELL) -> list[str]:
    lines = difflib.unified_diff(before.split("\n"), text.split("\n"), lineterm="", n=0)
    return [line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@"]


@pytest.mark.parametrize(
    "task, words, changes",
    [
        ("draft", {"Be short.": "Be very long: {so}."}, ["-      Be short.", "+      Be very long: {{so}}."]),
        (
            "draft",
            {"about tides.": "on tides, kindly."},
            ["-      Write a draft about {topic}.", "+      Write a draft on {topic}, kindly."],
        ),
        (
            "draft",
            {"it's all": 'it\'s #1: "all"'},
            ["-    expected_output: 'A draft, it''s all'", "+    expected_output: 'A draft, it''s #1: \"all\"'"],
        ),
        (
            "draft",
            {"short": "long", "A draft": "A long draft"},
            [
                "-      Be short.",
                "-    expected_output: 'A draft, it''s all'",
                "+      Be long.",
                "+    expected_output: 'A long draft, it''s all'",
            ],
        ),
        (
            "gather",
            {"facts": "three facts:"},
            [
                "-  gather: Collect facts about {topic}   # first",
                '+  gather: "Collect three facts: about {topic}"   # first',
            ],
        ),
        ("gather", {"Collect facts": "Collect\n- facts"}, ["-  gather: Collect facts about {topic}   # first", None]),
    ],
)
def test_c88_words_of_a_prompt_change_where_they_stand_and_the_cell_sends_what_the_fork_sent(
    server: OpenAIServer, llm: str, task: str, words: dict[str, str], changes: list[str | None]
) -> None:
    output = run_cell(llm, CELL)
    start = {"draft": "Write", "gather": "Collect"}[task]
    _, wanted = prompts_of(server, start)
    for before, after in words.items():
        assert before in wanted
        wanted = wanted.replace(before, after)
    fork = output.fork(call_of(output, task), user_prompt=wanted)
    text = fork.to_yaml()
    found = changed_lines(text)
    assert all(one is None or one == other for one, other in zip(changes, found, strict=False)), found
    assert output.rerun(call_of(output, task), user_prompt=wanted).to_yaml() == text
    run_cell(llm, text)
    assert prompts_of(server, start)[1] == wanted


def test_c88_words_of_a_system_prompt_change_in_the_agent_and_no_other_character(
    server: OpenAIServer, llm: str
) -> None:
    output = run_cell(llm, CELL)
    wanted = prompts_of(server, "Judge")[0].replace("kind", "strict")
    text = output.fork(call_of(output, "judge"), system_prompt=wanted).to_yaml()
    assert text == CELL.replace(*KIND)
    run_cell(llm, text)
    assert prompts_of(server, "Judge")[0] == wanted


def test_c88_a_kept_reply_has_the_change_of_its_rerun_and_a_fork_of_a_fork_both(server: OpenAIServer, llm: str) -> None:
    output = run_cell(llm, CELL)
    rerun = output.rerun(
        call_of(output, "draft"), user_prompt=prompts_of(server, "Write")[1].replace("Be short", "Be long")
    )
    fork = rerun.fork(1)
    long = CELL.replace("Be short", "Be long")
    assert fork.to_yaml() == rerun.to_yaml() == long
    second = fork.fork(call_of(fork, "judge"), system_prompt=prompts_of(server, "Judge")[0].replace("kind", "strict"))
    assert second.to_yaml() == long.replace(*KIND)


def test_c88_a_file_stays_and_its_text_is_given_and_a_run_of_python_is_written_whole(
    server: OpenAIServer, llm: str, tmp_path: Path
) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(CELL)
    origin = RunOrigin(text="\n", options=f"--llm {llm} --file {file}")
    started = start_run(run_cell(llm, CELL).ensemble, RunArguments({}, {}, RunSettings(origin=origin)))  # type: ignore[arg-type]
    output = started.result()
    wanted = prompts_of(server, "Write")[1].replace("Be short", "Be long")
    assert output.rerun(call_of(output, "draft"), user_prompt=wanted).to_yaml() == CELL.replace("Be short", "Be long")
    assert file.read_text() == CELL
    made = Ensemble(tasks=[Task(description="Find {topic}", name="a")], llm=llm, inputs={"topic": "tides"})
    ran = made.run()
    written = ran.rerun(call_of(ran, "a"), user_prompt=prompts_of(server, "Find")[1].replace("Find", "Seek")).to_yaml()
    assert written == made.to_yaml().replace("Find", "Seek")


def test_c88_whatever_is_written_sends_what_was_wanted_and_all_else_is_refused_by_name(
    server: OpenAIServer, llm: str
) -> None:
    output, chance = run_cell(llm, CELL), random.Random(3)
    sent = {"gather": prompts_of(server, "Collect"), "judge": prompts_of(server, "Judge")}
    words = [
        "the",
        "tides",
        "#",
        ":",
        "{topic}",
        "{{x}}",
        "\n",
        "-",
        '"',
        "'",
        "facts",
        "kind",
        "|",
        ">",
        "100%",
        "\\",
        "##",
        "Task",
    ]
    count, refusals = 0, list[str]()
    for _ in range(16):
        task, name = chance.choice([("gather", "user"), ("judge", "system")])
        before = sent[task][name == "user"]
        at, left_out = chance.randrange(len(before)), chance.choice([0, 0, 3, 9])
        after = before[:at] + " ".join(chance.choices(words, k=chance.choice([1, 2, 4]))) + before[at + left_out :]
        agent = {"gather": "Researcher", "judge": "Critic"}[task]
        change = ChangedCall(names=(f"{name}_prompt",), task=task, agent=agent, **{name: Reworded(before, after)})
        cell = RunOrigin(text=CELL, options=f"--llm {llm}")
        source = ChangedSource(changes=(change,), cell=cell, ensemble=output.ensemble, inputs=output.inputs)
        try:
            text = edit_cell(source).after
        except ValidationError as error:
            refusals.append(str(error))
            continue
        server.clear()
        run_cell(llm, text)
        told = [{part["role"]: part["content"] for part in each.body["messages"]} for each in server.requests]
        assert after.rstrip() in {each[name].rstrip() for each in told}
        count += 1
    assert count > 8
    assert all("no place for {topic}" in each for each in refusals)


def test_c89_another_prompt_becomes_the_tasks_own_with_its_places_and_variables(server: OpenAIServer, llm: str) -> None:
    output = run_cell(llm, CELL)
    context = prompts_of(server, "Write")[1].partition("\n\n## Task")[0]
    rerun = output.rerun(call_of(output, "draft"), user_prompt=f"Of tides:\n\n{context}\n\nWrite {{it}}.")
    prompt = Ensemble.from_yaml(rerun.to_yaml()).tasks[1].prompt
    assert prompt == "Of {topic}:\n\n## Context from Previous Tasks\n{context}\n\nWrite {{it}}."
    assert not [line for line in changed_lines(rerun.to_yaml()) if line[:1] == "-"]
    alone = output.rerun(call_of(output, "draft"), user_prompt="Of tides: " + str(output["gather"]))
    assert Ensemble.from_yaml(alone.to_yaml()).tasks[1].prompt == "Of {topic}: {context}"


@pytest.mark.parametrize(
    "change, name",
    [(lambda text: "Of tides.", r"\{context\}"), (lambda text: text.replace("tides", "waves"), r"\{topic\}.*'tides'")],
)
def test_c89_a_value_that_stands_there_no_more_is_refused_by_its_name(
    server: OpenAIServer, llm: str, change: Callable[[str], str], name: str
) -> None:
    output = run_cell(llm, CELL)
    rerun = output.rerun(call_of(output, "draft"), user_prompt=change(prompts_of(server, "Write")[1]))
    with pytest.raises(ValidationError, match=rf"no place for {name}"):
        rerun.to_yaml()


def test_c90_what_others_share_becomes_an_agent_of_its_own_with_the_same_role(server: OpenAIServer, llm: str) -> None:
    output = run_cell(llm, SHARED)
    system = prompts_of(server, "Judge the draft")[0]
    wanted = system.replace("kind", "strict")
    text = output.fork(call_of(output, "judge"), system_prompt=wanted).to_yaml()
    removed = [line for line in changed_lines(text, SHARED) if line[:1] == "-"]
    assert removed == ["-    agent: Critic"]
    server.clear()
    run_cell(llm, text)
    assert prompts_of(server, "Judge the draft")[0] == wanted
    assert prompts_of(server, "Judge it again")[0] == system
    other = llm.replace("test-model", "other")
    model = Ensemble.from_yaml(output.fork(call_of(output, "judge"), llm=other).to_yaml())
    assert model.tasks[2].agent is not None
    assert model.tasks[2].agent.llm == other
    assert model.tasks[3].agent is not None
    assert model.tasks[3].agent.llm != other


def test_c90_without_an_agent_a_model_is_the_tasks_own_with_its_parameters(server: OpenAIServer, llm: str) -> None:
    output = run_cell(llm, CELL)
    other = llm.replace("test-model", "other")
    text = output.rerun(call_of(output, "gather"), llm=other, temperature=0).to_yaml()
    assert changed_lines(text)[1:] == [
        "+  gather:",
        "+    description: Collect facts about {topic}   # first",
        f"+    llm: {{model: {other}, temperature: 0}}",
    ]
    mine = ScriptedChatModel(replies=["x", "y"])
    rerun = output.rerun(call_of(output, "judge"), llm=mine)
    assert "    llm: mine" in rerun.to_yaml({"mine": mine})


def test_c91_what_has_no_place_in_a_cell_is_refused_by_name(server: OpenAIServer, llm: str) -> None:
    output = run_cell(llm, CELL)
    call = call_of(output, "draft")
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    for made, why in (
        (output.fork(call, reply="x"), "reply= is what a model has said"),
        (output.rerun(call, messages=talk), "messages= is a whole conversation"),
        (output.rerun(call, llm=ScriptedChatModel(replies=["x"])), "no variable of the notebook holds"),
        (output.rerun(call), "Nothing was changed"),
        (output, "is no fork"),
    ):
        with pytest.raises(ValidationError, match=why):
            made.to_yaml()


def test_c88_a_fork_of_an_earlier_process_has_its_changes_and_says_which_are_lost(
    server: OpenAIServer, llm: str, store_path: Path
) -> None:
    output = run_cell(llm, CELL)
    wanted = prompts_of(server, "Write")[1].replace("short", "long")
    fork = output.fork(call_of(output, "draft"), user_prompt=wanted)
    wait_for_store()
    loaded = load_traces().load_output(fork.run_id)
    assert loaded.to_yaml() == fork.to_yaml() == CELL.replace("short", "long")
    system = prompts_of(server, "Judge")[0].replace("kind", "strict")
    again = output.ensemble.fork(fork.run_id, call_of(fork, "judge"), system_prompt=system)
    assert again.to_yaml() == CELL.replace("short", "long").replace(*KIND)
    other = output.fork(call_of(output, "draft"), llm=llm.replace("test-model", "other"), parameters={"temperature": 0})
    mine = output.fork(call_of(output, "draft"), llm=ScriptedChatModel(replies=["x"] * 3))
    body = {"extra_body": {"x-api-key": "sesame5sesame5"}}
    keyed = output.fork(call_of(output, "draft"), llm=llm, parameters=body)
    wait_for_store()
    assert b"sesame5" not in store_path.read_bytes()
    loaded = load_traces()
    with pytest.raises(ValidationError, match="parameters= of a fork of an earlier process is not kept"):
        loaded.load_output(keyed.run_id).to_yaml()
    assert loaded.load_output(other.run_id).to_yaml() == other.to_yaml()
    assert "test-model" not in other.to_yaml().partition("judge")[0]
    with pytest.raises(ValidationError, match="llm= of a fork of an earlier process is not kept"):
        loaded.load_output(mine.run_id).to_yaml()
