"""What a fork changes, what it refuses, and forks of forks (E101, E102, E103)."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    EnsembleOutput,
    GuardrailResult,
    Phase,
    Reply,
    RunInterrupted,
    RunStatus,
    StoreError,
    Task,
    TaskExecutionError,
    ToolResult,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.contract import ROOT
from tests.support.nested_runs import wait_for
from tests.support.openai_server import Answer, OpenAIServer, Request
from tests.support.store import wait_for_store


def look(q: str) -> str:
    """Look."""
    return f"saw {q}"


def answer(request: Request) -> Answer:
    """A call of the tool that is offered, then a text with the number of the request."""
    tools = [each["function"]["name"] for each in request.body.get("tools", ())]
    if tools and request.messages[-1]["role"] == "user":
        given = {"agent_role": "Mate", "task_description": "Help."} if tools == ["delegate"] else {"q": "tides"}
        return Answer("", calls=[(tools[0], given)])
    if "Count" in request.prompt:
        return Answer('{"times": 3}')
    return Answer(f"said after {len(str(request.messages))}")


@pytest.fixture
def team(server: OpenAIServer, llm: str) -> Ensemble:
    """Two chains: `find` (a tool) and `count` (typed); `lead` (delegates); `end` reads both."""
    server.choose = answer
    cook, boss, mate = (
        Agent(role="Cook", goal="Cook", tools=[look]),
        Agent(role="Boss", goal="Lead", allow_delegation=True),
        Agent(role="Mate", goal="Help"),
    )
    find = Task.of("Find it", name="find", agent=cook)
    count = Task.of("Count it", name="count", agent=mate, output_type={"times": "int"}, context=find)
    lead = Task.of("Lead on", name="lead", agent=boss)
    end = Task.of("End", name="end", agent=mate, context=[count, lead])
    return Ensemble(tasks=[find, count, lead, end], agents=[cook, boss, mate], llm=llm)


def spans(output: EnsembleOutput, kind: str, task: str) -> list[Span]:
    return [each for each in output.trace._fold.spans.values() if each.kind == kind and task in (each.task, each.name)]


def asked(server: OpenAIServer) -> list[str]:
    """What the requests were about, and forget them."""
    told = [str(each.messages) for each in server.requests]
    server.requests.clear()
    return [
        next(name for name in ("End", "Count", "Find", "Lead", "Help") if f"## Task\\n{name}" in each) for each in told
    ]


# --- E101 ---


def test_prompts_model_and_parameters_hold_for_the_task_from_that_call_on_e101(
    team: Ensemble, server: OpenAIServer, llm: str
) -> None:
    output = team.run()
    first, second = spans(output, "llm", "find")
    server.requests.clear()
    output.fork(second, system_prompt="Be brief.", user_prompt="Say less.", parameters={"temperature": 0})
    sent = server.requests[0]
    assert [(each["role"], each["content"]) for each in sent.messages[:2]] == [
        ("system", "Be brief."),
        ("user", "Say less."),
    ]
    assert [each["role"] for each in sent.messages[2:]] == ["assistant", "tool"]
    assert sent.body["temperature"] == 0
    assert "Be brief." not in str([each.messages for each in server.requests[1:]])
    assert len(server.requests) == 3
    server.requests.clear()
    output.fork(first, llm=llm.replace("test-model", "other"), messages=[{"role": "user", "content": "Just this."}])
    models = [each.body["model"] for each in server.requests]
    assert models == ["other", "other", "test-model", "test-model"]
    assert server.requests[0].messages == [{"role": "user", "content": "Just this."}]


def test_conversation_goes_on_with_what_the_fork_was_told_e101(team: Ensemble, server: OpenAIServer) -> None:
    output = team.run()
    first, second = spans(output, "llm", "find")
    again = output.fork(first, user_prompt="Look for less.")
    late = output.fork(second, messages=[{"role": "user", "content": "Just this."}])
    for fork, prompt in ((again, "Look for less."), (late, "Just this.")):
        server.requests.clear()
        team.run(continue_from=fork)
        *told, reply, _prompt = [
            each["content"] or "" for each in server.requests[0].messages if each["role"] != "system"
        ]
        assert told == [prompt, "", "saw tides"]  # the second is asked, and calls the tool, anew
        assert reply.startswith("said after")


def test_what_is_given_stands_in_place_of_what_came_of_the_span_e101(team: Ensemble, server: OpenAIServer) -> None:
    output = team.run()
    asked(server)
    fork = output.fork(spans(output, "llm", "find")[0], reply=Reply(calls=[ToolUse("look", {"q": "moon"})]))
    assert spans(fork, "tool", "find")[0].output == "saw moon"
    assert asked(server) == ["Find", "Count", "End"]
    output.fork(spans(output, "tool", "find")[0], tool_result=ToolResult.failure("broke"), until="find")
    assert server.requests[0].messages[-1]["content"] == "Error: broke"
    asked(server)
    fork = output.fork(spans(output, "task", "count")[0], output={"times": 7})
    assert (fork["count"].parsed_output, asked(server)) == ({"times": 7}, ["End"])
    assert fork["find"].reused
    fork = output.fork(spans(output, "llm", "find")[1], reply="No more.", until="count")
    assert ([each.name for each in fork.task_outputs], asked(server)) == (["find", "count"], ["Count"])


def test_guardrails_judge_what_is_given_e101(server: OpenAIServer, llm: str) -> None:
    def judge(output: Any) -> GuardrailResult:
        return GuardrailResult.failure("too short") if output.raw == "No." else GuardrailResult.success()

    server.default = Answer("A long text.")
    task = Task.of("Tell", name="tell", output_guardrails=judge, max_guardrail_retries=1)
    output = Ensemble(tasks=[task], llm=llm).run()
    for change in ({"reply": "No."}, {"output": "No."}):
        span = spans(output, "llm" if "reply" in change else "task", "tell")[0]
        server.requests.clear()
        assert output.fork(span, **change).raw == "A long text."
        assert len(server.requests) == 1
        assert "too short" in str(server.requests[0].messages)


def test_call_that_was_never_sent_or_failed_can_be_forked_e101(team: Ensemble, server: OpenAIServer) -> None:
    stopped = team.replace(budget=Budget(max_tokens=1)).run()
    fork = team.fork(stopped, spans(stopped, "llm", "find")[0], reply="Given.")
    assert fork["find"].raw == "Given."
    server.choose = None
    server.default = Answer.status(401)
    with pytest.raises(TaskExecutionError) as caught:
        team.run()
    server.choose = answer
    failed = caught.value.output
    assert isinstance(failed, EnsembleOutput)
    assert failed.fork(spans(failed, "llm", "find")[0], reply="Given.")["find"].raw == "Given."


def test_prompt_of_a_run_that_goes_on_with_another_one_is_its_own_e101(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("Said.")
    team = Ensemble(tasks=[Task.of("Tell", name="tell"), Task.of("End", name="end", context="tell")], llm=llm)
    output = team.run(continue_from=team.run())
    server.requests.clear()
    output.fork(spans(output, "llm", "end")[0], user_prompt="Now this.")
    assert [each["role"] for each in server.requests[0].messages] == ["system", "user", "assistant", "user"]
    assert server.requests[0].prompt == "Now this."


def test_reuse_takes_nothing_that_a_fork_has_changed_e100(team: Ensemble, server: OpenAIServer, store: Path) -> None:
    output = team.run()
    before = [each.raw for each in output.task_outputs]
    tool, call = spans(output, "tool", "find")[0], spans(output, "llm", "end")[0]
    fork = output.fork(tool, tool_result="made up")
    further = [output.fork(call, reply="Made up."), output.fork("end", output="Made up."), fork.fork("end")]
    further.append(output.fork(call, system_prompt="Make it up."))
    asked(server)
    again = team.run(reuse=True)
    assert ([each.raw for each in again.task_outputs], asked(server)) == (before, [])
    assert all(each.reused for each in again.task_outputs)
    assert fork.fork("end")["find"].raw == fork["find"].raw  # those that go on with it have it
    asked(server)
    wait_for_store()
    RunStore.open().forget([output.run_id, again.run_id, *(each.run_id for each in further)])
    last = team.run(reuse=True)
    reasons = last.frames.tasks.set_index("task").reuse_reason
    assert reasons["find"].startswith("what run ")
    assert reasons["find"].endswith(" did is for that run alone")


def test_task_that_has_changed_since_is_kept_with_a_warning_e100(server: OpenAIServer, llm: str, store: Path) -> None:
    def make(told: str) -> Ensemble:
        return Ensemble(tasks=[Task.of(told, name="tell"), Task.of("End", name="end", context="tell")], llm=llm)

    output = make("Tell").run()
    fork = make("Tell more").fork(output, spans(output, "task", "end")[0])
    assert fork["tell"].reused
    assert "What task 'tell' had put out" in fork.warnings[0]
    assert "the description changed" in fork.warnings[0]


def test_task_that_has_changed_since_is_kept_with_a_warning_without_a_store_e100(
    server: OpenAIServer, llm: str
) -> None:
    def make(goal: str) -> Ensemble:
        cook = Agent(role="Cook", goal=goal)
        tasks = [Task.of("Tell", name="tell", agent=cook), Task.of("End", name="end", context="tell")]
        return Ensemble(tasks=tasks, agents=[cook], llm=llm)

    output = make("Tell").run()
    end = spans(output, "task", "end")[0]
    assert make("Tell").fork(output, end).warnings == ()
    (warning,) = make("Tell more").fork(output, end).warnings
    assert "What task 'tell' had put out" in warning
    assert "the goal of agent Cook changed" in warning


def test_what_memories_and_conditions_are_given_depends_e100(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("Said.")
    one, two, three = (
        Task.of(f"Do {name}", name=name, memory=scopes)
        for name, scopes in (("one", ["s"]), ("two", ["s"]), ("three", []))
    )
    last = Task.of("Do last", name="last", when={"one": {"contains": "Other"}})
    output = Ensemble(tasks=[one, two, three, last], llm=llm, memory=True).run()
    server.requests.clear()
    fork = output.fork(spans(output, "llm", "one")[0], reply="Other.")
    assert [(each.name, each.reused) for each in fork.task_outputs] == [
        ("one", False),
        ("two", False),
        ("three", True),
        ("last", False),
    ]
    assert len(server.requests) == 2


def test_run_of_a_manager_is_forked_and_its_calls_are_made_again_e100(server: OpenAIServer, llm: str) -> None:
    cook, mate = Agent(role="Cook", goal="Cook"), Agent(role="Mate", goal="Help")
    asking = [("delegate_task", {"agent_role": role, "task_description": "Help."}) for role in ("Cook", "Mate")]
    server.script(
        Answer("", calls=asking),
        "Stirred.",
        "Stirred, too.",
        "All is done.",
        "Salted.",
        "All is salted.",
        "Burnt.",
    )
    output = Ensemble(tasks=[Task.of("Cook")], agents=[cook, mate], llm=llm, workflow="hierarchical").run()
    calls = [each for each in output.trace._fold.spans.values() if each.kind == "llm"]
    helped = next(each for each in calls if each.agent == "Mate")
    server.requests.clear()
    assert output.fork(helped).raw == "All is salted."
    assert len(server.requests) == 2
    assert [*output.rerun(helped).frame.reply] == ["Burnt."]


def test_rounds_that_a_task_has_judged_are_kept_as_they_went_e100(server: OpenAIServer, llm: str, store: Path) -> None:
    server.script("A draft.", "RETRY: longer", "A longer draft.", "APPROVE", "The end.")
    draft = Phase.of("draft", Task.of("Draft", name="draft"), review="Is it long enough?")
    ensemble = Ensemble(phases=[draft, Phase.of("end", Task.of("End", name="end"), after="draft")], llm=llm)
    output = ensemble.run()
    for run in (output, output.run_id):
        server.script("Another end.")
        server.requests.clear()
        fork = ensemble.fork(run, spans(output, "llm", "end")[0].span_id)
        assert (fork["draft"].raw, fork.raw) == ("A longer draft.", "Another end.")
        assert len(server.requests) == 1


def test_item_whose_fallback_took_over_is_kept_beside_another_one_e100(server: OpenAIServer, llm: str) -> None:
    def fail_at_one(request: Request) -> Answer:
        is_refused = "Do 1" in request.prompt and "Stand-in" not in str(request.messages[0])
        return Answer.status(400) if is_refused else Answer("Done.")

    server.choose = fail_at_one
    stand_in = Agent(role="Stand-in", goal="Do")
    output = Ensemble(tasks=[Task.of("Do {item}", name="do", for_each=[1, 2], fallback=stand_in)], llm=llm).run()
    server.requests.clear()
    assert output.fork(spans(output, "llm", "do[1]")[0]).raw == output.raw
    assert len(server.requests) == 1


def test_what_was_read_of_a_memory_before_the_fork_is_kept_e100(server: OpenAIServer, llm: str) -> None:
    one, two, three = (
        Task.of(f"Do {name}", name=name, memory=scopes)
        for name, scopes in (("one", ["a"]), ("two", ["b"]), ("three", ["a", "b"]))
    )
    until = {"three": {"contains": "Enough"}}
    rounds = Phase.of("rounds", one, two, three, until=until, max_rounds=2, workflow="sequential")
    server.script("1", "2", "More.", "1 again", "2 again", "Enough.", "1", "More.", "1 again", "2 again", "Enough.")
    output = Ensemble(phases=[rounds], llm=llm).run()
    server.requests.clear()
    fork = output.fork(spans(output, "llm", "one")[0])
    assert fork.raw == output.raw
    told = re.findall(r"## Task\\nDo (\w+)", " ".join(str(each.messages) for each in server.requests))
    assert told == ["one", "three", "one", "two", "three"]


def test_replayed_run_is_forked_with_a_model_that_is_asked_in_place_of_all_e101(
    team: Ensemble, server: OpenAIServer, llm: str, tmp_path: Path
) -> None:
    team.run(record=tmp_path / "demo.jsonl")
    replayed = team.run(replay=tmp_path / "demo.jsonl")
    server.requests.clear()
    other = llm.replace("test-model", "other")
    for kind, change in (
        ("llm", {"reply": "Found."}),
        ("llm", {}),
        ("tool", {"tool_result": "x"}),
        ("task", {"output": "y"}),
    ):
        span = spans(replayed, kind, "find")[-1]
        with pytest.raises(ValidationError, match=r"was replayed from .*demo.jsonl, and no model was asked"):
            replayed.fork(span, **change)
        assert server.requests == []
        fork = replayed.fork(span, llm=other, **change)
        assert {each.body["model"] for each in server.requests} == {"other"}
        assert fork["lead"].reused
        server.requests.clear()


# --- E102 ---


def test_what_does_not_fit_is_refused_before_anything_is_asked_e102(team: Ensemble, server: OpenAIServer) -> None:
    output, other = team.run(), team.run()
    call, tool, task = (
        spans(output, "llm", "find")[0],
        spans(output, "tool", "find")[0],
        spans(output, "task", "find")[0],
    )
    count = spans(output, "task", "count")[0]
    server.requests.clear()
    for words, span, change in (
        ("has no span nowhere", "nowhere", {}),
        (f"is one of run {other.run_id}: fork that", spans(other, "llm", "find")[0], {}),
        ("reply= is for a model call", tool, {"reply": "x"}),
        ("tool_result= is for a tool call", call, {"tool_result": "x"}),
        ("output= is for a task", call, {"output": "x"}),
        ("reply= does not fit task 'count'", spans(output, "llm", "count")[0], {"reply": "many"}),
        ("output= does not fit task 'count'", count, {"output": {"time": 1}}),
        ("leave out system_prompt=", call, {"reply": "x", "system_prompt": "y"}),
        ("leave out llm=", tool, {"tool_result": "x", "llm": "scripted"}),
        ("leave out tool_result=", call, {"reply": "x", "tool_result": "y"}),
        ("messages= is all", call, {"messages": [{"role": "user", "content": "x"}], "user_prompt": "y"}),
        ("Reply(calls=[...])", call, {"reply": 3}),
        (r"calls[0] must be", call, {"reply": Reply(calls=["look"])}),  # type: ignore[list-item]
        ("resume does not go with a fork", call, {"resume": "-1"}),
        ("parameters must be a mapping", call, {"parameters": 3}),
        ("Did you mean 'temperature'", call, {"parameters": {"temprature": 0}}),
        ("names no model", call, {"llm": "nope:x"}),
        ("is a delegation", spans(output, "tool", "lead")[0], {"tool_result": "x"}),
        ("until: no task 'nothing'", task, {"until": "nothing"}),
        ("until must be a task or its name, got 3", task, {"until": 3}),
    ):
        with pytest.raises(ValidationError) as caught:
            output.fork(span, **change)
        assert words in str(caught.value)
    never = Task.of("Never", name="never", context="find", when={"find": {"contains": "nothing"}})
    skipped = team.replace(tasks=[*team.tasks, never]).run()
    server.requests.clear()
    for change in ({}, {"output": "x"}):
        with pytest.raises(ValidationError, match=r"Task 'never' .* was skipped \(.*nothing to do again.*Fork at"):
            skipped.fork(spans(skipped, "task", "never")[0], **change)
    with pytest.raises(ValidationError, match="has none of that name"):
        Ensemble(tasks=[Task.of("Else", name="else")], llm="scripted").fork(output, call)
    assert server.requests == []


def test_runs_that_keep_no_texts_or_are_not_there_are_refused_e102(team: Ensemble, store: Path) -> None:
    quiet = team.replace(capture_mode="metadata").run()
    for run in (quiet, quiet.run_id):
        with pytest.raises(ValidationError, match=r"this run kept no texts \(capture_mode metadata\)"):
            team.fork(run, "x")
    with pytest.raises(StoreError, match="No run 'zzz'"):
        team.fork("zzz", "x")


def test_mask_is_never_sent_e102(server: OpenAIServer, llm: str, store: Path) -> None:
    secret = "sk-" + "a1B2" * 10

    def tell(q: str) -> str:
        """Tell."""
        return f"it is {secret}"

    server.choose = answer
    ensemble = Ensemble(tasks=[Task.of("Find", name="find", tools=[tell])], llm=llm)
    output = ensemble.run()
    last = spans(output, "llm", "find")[1]
    server.requests.clear()
    output.fork(last)
    assert secret in str(server.requests[0].messages)
    server.requests.clear()
    with pytest.raises(ValidationError, match="what tool tell answered in task 'find' before it holds a secret"):
        ensemble.fork(output.run_id, last.span_id)
    assert server.requests == []


def test_forks_side_by_side_are_runs_of_their_own_and_can_be_stopped_e102(
    team: Ensemble, server: OpenAIServer, store: Path
) -> None:
    output = team.run()
    span = spans(output, "llm", "find")[1]
    server.choose, server.default = None, Answer("Late.", delay=300)
    handles = [output.start_fork(span, llm=None), output.start_fork(span)]
    wait_for(lambda: sum(each.closed_at is None for each in server.requests) == 2)
    for handle in handles:
        handle.cancel()
        with pytest.raises(RunInterrupted):
            handle.result(60)
    assert {handle.output.status for handle in handles} == {RunStatus.INTERRUPTED}
    server.choose = answer
    with pytest.raises(ValidationError, match=rf"is a fork of {output.run_id}"):
        team.run(resume=handles[0].run_id)


# --- E103 ---


def test_fork_of_a_fork_at_a_span_that_it_kept_goes_to_the_run_that_has_it_e103(
    team: Ensemble, server: OpenAIServer
) -> None:
    output = team.run()
    first = output.fork(spans(output, "llm", "lead")[-1], reply="Led otherwise.")
    asked(server)
    second = first.fork(spans(output, "llm", "find")[1].span_id, reply="Found otherwise.")
    assert asked(server) == ["Count", "End"]
    assert (second["find"].raw, second["lead"].raw) == ("Found otherwise.", "Led otherwise.")
    third = first.fork(spans(first, "task", "find")[0], reply="Found by task.")
    assert (third["find"].raw, third["lead"].raw) == ("Found by task.", "Led otherwise.")


def test_later_call_of_a_fork_is_forked_there_e103(team: Ensemble, server: OpenAIServer) -> None:
    output = team.run()
    first = output.fork(spans(output, "llm", "find")[1], user_prompt="Find more.")
    server.requests.clear()
    second = first.fork(spans(first, "llm", "end")[0], reply="The end.")
    assert (second.raw, second["find"].raw, asked(server)) == ("The end.", first["find"].raw, [])
    with pytest.raises(ValidationError, match="was done anew in its fork"):
        first.fork(spans(output, "llm", "find")[1].span_id)


def test_fork_of_a_fork_keeps_the_prompt_that_was_changed_before_in_its_task_e103(
    team: Ensemble, server: OpenAIServer, llm: str, store: Path
) -> None:
    output = team.run()
    other = llm.replace("test-model", "other")
    first = output.fork(spans(output, "llm", "find")[0], user_prompt="Find more.", llm=other)
    server.requests.clear()
    call = spans(first, "llm", "find")[1]
    first.fork(call, system_prompt="Be brief.")
    sent = server.requests[0]
    assert [each["content"] for each in sent.messages[:2]] == ["Be brief.", "Find more."]
    assert [each["role"] for each in sent.messages[2:]] == ["assistant", "tool"]
    assert [each.body["model"] for each in server.requests] == ["other", "test-model", "test-model"]
    with pytest.raises(ValidationError, match="is a fork that has changed user_prompt and llm in task 'find'"):
        team.fork(first.run_id, call.span_id, system_prompt="Be brief.")


def test_fork_of_a_stored_run_reads_that_again_where_it_is_forked_itself_e103(
    team: Ensemble, server: OpenAIServer, store: Path
) -> None:
    output = team.run()
    first = team.fork(output.run_id, spans(output, "llm", "lead")[-1], reply="Led otherwise.")
    kept = spans(output, "llm", "find")[1].span_id
    server.requests.clear()
    second = first.fork(kept, reply="Found otherwise.")
    assert (second["find"].raw, second["lead"].raw, asked(server)) == (
        "Found otherwise.",
        "Led otherwise.",
        ["Count", "End"],
    )
    wait_for_store()
    RunStore.open().forget([output.run_id])
    with pytest.raises(ValidationError, match="has no span"):
        first.fork(kept, reply="Found otherwise.")
    assert first.fork(spans(first, "task", "find")[0], output="Found by hand.")["find"].raw == "Found by hand."


def test_stored_run_is_forked_by_a_fresh_process_as_by_this_one_e103(
    server: OpenAIServer, llm: str, store: Path
) -> None:
    server.choose = answer
    source = textwrap.dedent(f"""
        import sys
        from ensemble_notebook import Agent, Ensemble, Task, config
        def look(q: str) -> str:
            "Look."
            open({str(store.with_suffix(".calls"))!r}, "a").write(q)
            return "saw " + q
        config.store = {str(store)!r}
        a = Task.of("Find it", name="find", agent=Agent(role="Cook", goal="Cook", tools=[look]))
        b, c = Task.of("Help", name="help"), Task.of("End", name="end", context=[a])
        team = Ensemble(tasks=[a, b, c], llm={llm!r})
        if sys.argv[1:]:
            output = team.fork(*sys.argv[1:])
        else:
            output = team.run()
        calls = [each.span_id for each in output.trace._fold.spans.values() if each.kind == "llm"]
        print(output.run_id, calls[1], *[int(each.reused) for each in output.task_outputs])
    """)

    def run(*words: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", source, *words], capture_output=True, text=True, check=True)
        return done.stdout.split()

    run_id, call, *_ = run()
    asked(server)
    assert run(run_id, call)[2:] == ["0", "1", "0"]
    assert asked(server) == ["Find", "End"]
    assert store.with_suffix(".calls").read_text() == "tides"


def test_example_of_the_guide_runs_e101(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "forks.md").read_text(), re.DOTALL)
    path = tmp_path / "example.py"
    path.write_text("".join(code))
    names = runpy.run_path(str(path))
    fork, critic = names["fork"], names["output"]["critic"]
    assert [each.reused for each in fork.task_outputs] == [True, False, True]
    assert (fork["critic"].raw, critic.raw == fork["critic"].raw) == ("The second figure is made up.", False)
    assert names["kept"]["critic"].raw == names["longer"].frame["reply"][1]
