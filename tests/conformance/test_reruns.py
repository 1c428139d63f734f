"""Model calls made again, against a server that remembers what it was asked (E110-E114)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    CostEstimate,
    DeadlineExceededError,
    Ensemble,
    ExecutionTrace,
    LlmToken,
    RunInterrupted,
    Task,
    ValidationError,
)
from ensemble_notebook.ensemble.earlier_runs.dependence import list_around
from tests.support.openai_server import Answer, OpenAIServer

CALLS: list[str] = []
SECRET = "sk-proj-abcdefghijklmnop"


def look(place: str) -> str:
    """Look at a place."""
    CALLS.append(place)
    return f"calm at {place}"


class Wind(BaseModel):
    """The wind."""

    knots: int


def make_pilots(llm: str, **fields: Any) -> Ensemble:
    pilot = Agent(role="{sea} pilot", goal="Cross", tools=[look], llm={"model": llm, "temperature": 0.5})
    wind = Task.of("Report the wind on the {sea}", name="wind", agent=pilot)
    tell = Task.of("Tell all", name="tell", context=[wind])
    return Ensemble(tasks=[wind, tell], llm=llm, inputs={"sea": "Baltic"}, name="pilots", **fields)


@pytest.fixture
def pilots(server: OpenAIServer, llm: str) -> Any:
    """The output of a run of two tasks and three calls; the first one asks for a tool."""
    server.script(Answer(None, calls=[("look", {"place": "bay"})]), Answer("It is calm."), Answer("All told."))
    output = make_pilots(llm).run()
    CALLS.clear()
    return output


def find_calls(run: Any, task: str | None = None) -> list[Any]:
    trace = run if isinstance(run, ExecutionTrace) else run.trace
    return [each for each in trace.spans if each.kind == "llm" and task in (None, each.task)]


def get_last(server: OpenAIServer) -> dict[str, Any]:
    return server.requests[-1].body


def test_e110_every_call_is_made_again_as_it_was_made_and_nothing_else_runs(pilots, server):
    asked = [each.body for each in server.requests]
    for call, body in zip(find_calls(pilots), asked, strict=True):
        before = len(server.requests)
        pilots.rerun(call)
        assert len(server.requests) == before + 1
        assert get_last(server) == body
    assert CALLS == []


def test_e110_only_what_is_given_is_different(pilots, server):
    first, second = (each.body for each in server.requests[:2])
    call = find_calls(pilots)[1]
    pilots.rerun(call, system_prompt="Be short.", user_prompt="The wind?", temperature=0, top_p=0.5)
    assert get_last(server) == {
        **second,
        "temperature": 0,
        "top_p": 0.5,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "The wind?"},
            *second["messages"][2:],
        ],
    }
    assert len(second["messages"]) == 4
    pilots.rerun(call, messages=[{"role": "user", "content": "Only this."}])
    assert get_last(server) == {**first, "messages": [{"role": "user", "content": "Only this."}]}


def test_e110_user_prompt_is_that_of_the_task_behind_an_earlier_conversation(server, llm):
    one = Ensemble(tasks=[Task.of("First", name="chat")], llm=llm)
    before = one.run()
    after = one.replace(tasks=[Task.of("Second", name="chat")]).run(continue_from=before)
    sent = server.requests[-1].messages
    after.rerun(find_calls(after)[0], user_prompt="Third")
    assert server.requests[-1].messages == [*sent[:-1], {"role": "user", "content": "Third"}]
    after.trace.rerun(find_calls(after)[0], llm=llm, user_prompt="Third")
    assert server.requests[-1].messages == [*sent[:-1], {"role": "user", "content": "Third"}]


def test_e110_call_of_a_stored_run_and_of_a_file_is_made_again(store_path, pilots, server, llm, tmp_path):
    sent = server.requests[1].body
    for _ in range(2):  # by its name the run is meant, and no call of it that was made again
        make_pilots(llm).rerun("pilots", find_calls(pilots)[1].span_id)
        assert get_last(server) == sent
    pilots.trace.save(tmp_path / "run.trace.json")
    loaded = ExecutionTrace.load(tmp_path / "run.trace.json")
    loaded.rerun(find_calls(loaded)[1], llm=llm, temperature=0.5)
    assert get_last(server) == sent
    store_path.unlink()
    rerun = loaded.rerun(find_calls(loaded)[1], llm=llm, temperature=0.5)
    assert "does not tell what the model knew of its tools" in rerun.warnings[0]
    assert get_last(server) == {name: value for name, value in sent.items() if name != "tools"}


def test_e110_started_and_awaited_reruns_stream_and_return(pilots, server):
    server.default = Answer("One two three.")
    handle = pilots.start_rerun(find_calls(pilots)[2], repeat=2)
    rerun = handle.result()
    assert list(rerun.frame["reply"]) == ["One two three."] * 2
    pieces = [each.text for each in handle.events if isinstance(each, LlmToken)]
    assert "".join(pieces) == "One two three." * 2
    assert len(asyncio.run(pilots.arerun(find_calls(pilots)[2]))) == 1


def test_e111_replies_are_rows_of_one_run_that_knows_its_origin(pilots, server):
    server.script(Answer(None, calls=[("look", {"place": "sea"})]))
    rerun = pilots.rerun(find_calls(pilots)[0], repeat=3, concurrency=1, temperature=1)
    frame = rerun.frame
    assert list(frame.index) == [1, 2, 3]
    assert frame["tool_calls"].tolist() == ['look({"place": "sea"})', "", ""]
    assert frame["reply"].tolist()[1:] == ["ok", "ok"]
    assert frame["error"].isna().all()
    assert frame[["input_tokens", "output_tokens"]].sum().tolist() == [33, 21]
    run = rerun.result.trace.frames.runs.iloc[0]
    assert (run["forked_from_run"], run["forked_from_span"]) == (pilots.run_id, find_calls(pilots)[0].span_id)
    assert run["kind"] == "rerun"
    assert rerun.changed == ("parameters",)


def test_e111_typed_reply_has_its_value_and_one_that_is_not_of_the_type_has_none(server, llm):
    server.default = Answer('{"knots": 7}')
    output = Ensemble(tasks=[Task.of("Wind", name="wind", output_type=Wind)], llm=llm).run()
    server.script(Answer('{"knots": 9}'), Answer("none"))
    rerun = output.rerun(find_calls(output)[0], repeat=2, concurrency=1)
    assert rerun.frame["value"].tolist() == [Wind(knots=9), None]
    assert rerun.frame["reply"].tolist() == ['{"knots": 9}', "none"]


def test_e111_reply_that_failed_and_one_without_budget_are_rows_with_an_error(pilots, server):
    server.script(Answer.status(401), Answer("fine"))
    call = find_calls(pilots)[2]
    rerun = pilots.rerun(call, repeat=2, concurrency=1)
    assert rerun.frame["error"].notna().tolist() == [True, False]
    assert "401" in rerun.frame["error"].iloc[0]
    with pytest.raises(ValidationError, match=r"Reply 1 failed: .*401"):
        rerun.diff(1)
    before = len(server.requests)
    rerun = pilots.rerun(call, repeat=4, concurrency=1, budget="2 calls")
    assert len(server.requests) == before + 2
    assert rerun.frame["error"].notna().tolist() == [False, False, True, True]
    assert all("budget" in each for each in rerun.frame["error"].iloc[2:])


def test_e111_stopped_rerun_has_the_replies_that_came(pilots, server):
    call = find_calls(pilots)[2]
    server.script(Answer("first"), Answer("late", delay=20))
    with pytest.raises(DeadlineExceededError) as late:
        pilots.rerun(call, repeat=3, concurrency=1, timeout=0.5)
    assert late.value.output.frame["error"].notna().tolist() == [False, True, True]
    server.script(Answer("first"), Answer("late", until=lambda: handle.is_done))
    handle = pilots.start_rerun(call, repeat=2, concurrency=1)
    while sum(each.status is not None for each in server.requests) < 5:
        pass
    handle.cancel()
    with pytest.raises(RunInterrupted, match="of 2 replies are there") as stopped:
        handle.result()
    assert len(stopped.value.output) == 2


def make_deep(url: str) -> dict[str, Any]:
    """Ensembles in which a call is deep inside, each with the model whose call it is."""

    def name(model: str) -> dict[str, str]:
        return {"model": f"openai:{model}", "base_url": url}

    inner = Ensemble(tasks=[Task.of("Deep", name="deep")], llm=name("inner"), name="inner")
    boss = Agent(role="Boss", goal="Lead", allow_delegation=True)
    worker = Agent(role="Worker", goal="Work", llm=name("worker"))
    tool = Task.of("Ask it", name="asks", tools=[inner.as_tool("ask_inner", "Asks.")])
    return {
        "nested": Ensemble(tasks=[Task(name="sub", ensemble=inner)], llm=name("outer")),
        "tool": Ensemble(tasks=[tool], llm=name("outer")),
        "worker": Ensemble(tasks=[Task.of("Lead", name="lead", agent=boss)], agents=[boss, worker], llm=name("outer")),
        "items": Ensemble(tasks=[Task.of("Do {item}", name="each", for_each=["a", "b"])], llm=name("outer")),
    }


@pytest.mark.parametrize("kind", ["nested", "tool", "worker", "items"])
def test_e112_model_of_the_agent_of_the_span_is_asked(server, kind):
    def choose(request: Any) -> Answer | None:
        tools = [each["function"]["name"] for each in request.body.get("tools", ())]
        if request.messages[-1]["role"] == "tool" or not tools:
            return None
        given = {"role": "Worker", "task": "Dig"} if tools[0] == "delegate" else {}
        return Answer(None, calls=[(tools[0], given)])

    server.choose = choose
    ensemble = make_deep(server.url)[kind]
    output = ensemble.run()
    asked = [(each.body["model"], each.messages) for each in server.requests]
    calls = find_calls(output)
    assert len(calls) == len(asked) > 0
    for call in calls:
        output.rerun(call)
        asked.remove((get_last(server)["model"], get_last(server)["messages"]))
    assert asked == []


def test_e112_call_in_a_row_of_a_map_and_in_a_rerun_is_made_again(server, llm):
    result = Ensemble(tasks=[Task.of("Say {word}", name="say")], llm=llm).map([{"word": "a"}, {"word": "b"}])
    second = next(each.body for each in server.requests if "Say b" in each.prompt)
    rerun = result[1].output.rerun(find_calls(result[1].output)[0])
    assert get_last(server) == second
    call = next(each for each in find_calls(result.output) if "row 1" in {around.name for around in list_around(each)})
    result.output.rerun(call)
    assert get_last(server) == second
    own = rerun.result[0].output
    own.rerun(find_calls(own)[0], user_prompt="Say c")
    assert server.requests[-1].prompt == "Say c"


def test_e112_what_can_not_be_asked_again_is_refused_before_anything_is_asked(pilots, server, llm, tmp_path):
    call, count = find_calls(pilots)[0], len(server.requests)
    other = pilots.trace.tasks[0].span
    refused: dict[str, Any] = {
        "has no span nowhere": lambda: pilots.rerun("nowhere"),
        "has 2 model calls: name one of them": lambda: pilots.rerun(other),
        "is no model call, but a run": lambda: pilots.rerun(pilots.run_id),
        "no 'temperatur'. Did you mean 'temperature'": lambda: pilots.rerun(call, temperatur=1),
        "llm= says: leave out model=": lambda: pilots.rerun(call, model="other"),
        "repeat must be a whole number from 1": lambda: pilots.rerun(call, repeat=0),
        "leave out system_prompt= and user_prompt=": lambda: pilots.rerun(call, messages=[], user_prompt="x"),
        "messages: ": lambda: pilots.rerun(call, messages=[]),
        "names no model": lambda: pilots.rerun(call, llm="nobody:x"),
        "is not known any more: name one with llm=": lambda: pilots.trace.rerun(call),
    }
    for told, ask in refused.items():
        with pytest.raises(ValidationError, match=told.replace("(", r"\(")):
            ask()
    assert len(server.requests) == count


def test_e112_run_without_texts_and_replayed_run_are_refused_by_their_remedy(server, llm, tmp_path):
    ensemble = Ensemble(tasks=[Task.of("Say it", name="say")], llm=llm, name="textless")
    textless = ensemble.run(record=tmp_path / "r.json").ensemble.replace(capture_mode="metadata").run()
    replayed = ensemble.run(replay=tmp_path / "r.json")
    count = len(server.requests)
    for run in (textless, textless.trace):
        with pytest.raises(ValidationError, match=r"kept no texts \(capture_mode metadata\).*\"standard\""):
            run.rerun(find_calls(run)[0])
    with pytest.raises(ValidationError, match=r"was replayed from r.json.*llm="):
        replayed.rerun(find_calls(replayed)[0])
    assert len(server.requests) == count
    replayed.rerun(find_calls(replayed)[0], llm=llm)
    assert get_last(server) == server.requests[0].body


def test_e112_a_mask_is_never_sent(store_path, server, llm):
    ensemble = Ensemble(tasks=[Task.of("Use {key}", name="use")], llm=llm, name="secretive")
    output = ensemble.run(key=SECRET)
    call = find_calls(output)[0]
    output.rerun(call)
    assert SECRET in server.requests[-1].prompt
    count = len(server.requests)
    with pytest.raises(ValidationError, match="had secrets, which are not kept"):
        ensemble.rerun(output.run_id, call)
    assert len(server.requests) == count
    ensemble.rerun(output.run_id, call, user_prompt="Use none")
    assert server.requests[-1].prompt == "Use none"
    ensemble.rerun(output.run_id, call, user_prompt="Use *** none")  # these are the person's own
    assert server.requests[-1].prompt == "Use *** none"


@pytest.mark.parametrize("secret", ["", SECRET])
def test_e112_stars_that_the_model_was_told_are_no_mask(store_path, server, llm, secret):
    ask = Task.of("Rate *** hotels", name="ask", tools=[look])
    use = Task.of("Use {key}", name="use")  # is kept in the same piece
    server.script(Answer("Now ***.", calls=[("look", {"place": "***"})]), Answer("Three."), Answer("Used."))
    ensemble = Ensemble(tasks=[ask, use], llm=llm, name="stars")
    output = ensemble.run(key=secret or "none")
    calls = find_calls(output)
    for call, asked in zip(calls[:2], [each.body for each in server.requests[:2]], strict=True):
        ensemble.rerun(output.run_id, call)
        assert get_last(server) == asked
    count = len(server.requests)
    if secret:
        with pytest.raises(ValidationError, match="had secrets, which are not kept"):
            ensemble.rerun(output.run_id, calls[2])
        assert len(server.requests) == count


def test_e113_diff_score_and_fork_of_a_reply(pilots, server):
    server.script(Answer("It is very calm."), Answer("Storm!"))
    rerun = pilots.rerun(find_calls(pilots)[1], repeat=2, concurrency=1)
    assert str(rerun.diff(1)) == "reply:\n  It is{+ very+} calm."
    with pytest.raises(ValidationError, match="numbered from 1 to 2"):
        rerun.diff(3)
    scored = rerun.score(lambda output: "Storm" in output.raw, "storm")
    assert scored.frame["storm"].tolist() == [False, True]
    assert "storm" not in rerun.frame
    before = len(server.requests)
    fork = rerun.fork(2)
    assert fork["wind"].raw == "Storm!"
    assert len(server.requests) == before + 1
    assert "Storm!" in server.requests[-1].prompt
    assert CALLS == []


def test_e113_notebook_shows_a_card_for_each_reply_with_secrets_masked(pilots, server):
    server.script(Answer("It is <b>very</b> calm."), Answer(f"Key {SECRET}"), Answer.status(401))
    rerun = pilots.rerun(find_calls(pilots)[1], repeat=3, concurrency=1, system_prompt="Say")
    page = rerun._repr_mimebundle_()["text/html"]
    assert page.count("border-radius:6px") == 4
    assert "<ins" in page
    assert "<b>very" not in page
    assert SECRET not in page + rerun._repr_mimebundle_()["text/plain"]
    assert "401" in page
    assert "with another system prompt" in page


def test_e114_estimate_of_a_rerun_asks_nothing(pilots, server):
    count = len(server.requests)
    estimate = pilots.rerun(find_calls(pilots)[1], repeat=5, plan=True)
    assert isinstance(estimate, CostEstimate)
    assert (estimate.llm_calls.low, estimate.llm_calls.high) == (5, 5)
    assert estimate.output_tokens.likely == 5 * 7
    assert estimate.input_tokens.likely > 5 * 20
    assert len(server.requests) == count
