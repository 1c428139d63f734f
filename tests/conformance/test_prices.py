"""T10, E36, E54, E56, E73, V7, V14: what calls cost, by the model's own rates or its own ensemble's.

The server counts the tokens of each request. Each task asks a model of its own name, so the bill is known by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensemble_notebook import (
    Agent,
    CostConfiguration,
    Ensemble,
    ExecutionTrace,
    RunStatus,
    ScriptedChatModel,
    Task,
    ValidationError,
    load_traces,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer, Request
from tests.support.store import wait_for_store

CHEAP = {"input_rate": "0.000001", "output_rate": "0.000002"}
DEAR = {"input_rate": "0.001", "output_rate": "0.002"}
VERDICT = {"passed": True, "reason": "as it is"}
VERDICT_TYPE = {"passed": "bool", "reason": "str"}


@dataclass
class Till:
    """A server that counts what each model was asked for.

    Attributes:
        bill: tokens by model, in the order of the requests: input, cached input, output.
    """

    server: OpenAIServer
    cached: int = 0
    bill: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        size = sum(len(str(each["content"]).encode()) for each in request.body["messages"])
        usage = (size // 2 + 100, 60 + size % 100)
        self.bill.setdefault(request.body["model"], []).append((usage[0], self.cached, usage[1]))
        return Answer(json.dumps(VERDICT), usage=usage, cached=self.cached, model=request.body["model"])

    def spec(self, name: str, cost: Any = None) -> dict[str, Any]:
        priced = {} if cost is None else {"cost": cost}
        return {"model": name, "base_url": self.server.url, **priced}

    def add_up(self, rates: Mapping[str, CostConfiguration | None]) -> tuple[Decimal | None, bool]:
        """The bill as far as prices are known, and whether all are."""
        known, is_complete = Decimal(0), True
        for name, requests in self.bill.items():
            cost = rates[name]
            is_complete = is_complete and cost is not None
            for inputs, cached, outputs in requests if cost is not None else ():
                assert cost is not None
                cheaper = cost.input_rate if cost.cached_input_rate is None else cost.cached_input_rate
                known += (inputs - cached) * cost.input_rate + cached * cheaper + outputs * cost.output_rate
        return (known if known or is_complete else None), is_complete


@pytest.fixture
def till() -> Iterator[Till]:
    with OpenAIServer() as server:
        made = Till(server)
        server.choose = made.answer
        yield made


def judge(till: Till, name: str = "judge", llm_cost: Any = None, **fields: Any) -> Ensemble:
    task = Task.of("Judge {output}", name="judge", output_type=VERDICT_TYPE)
    return Ensemble(tasks=[task], llm=till.spec(name, llm_cost), name=name, **fields)


# --- One price everywhere ---------------------------------------------------------------------------------------------


RATES = st.one_of(
    st.none(),
    st.builds(
        CostConfiguration,
        input_rate=st.sampled_from(["0.000001", "0.01", "1", "0.0000003"]),
        output_rate=st.sampled_from(["0.000002", "0.02", "3"]),
        cached_input_rate=st.sampled_from([None, "0.0000001", "0"]),
    ),
)


@st.composite
def nests(draw: Any, depth: int = 2) -> Any:
    """An ensemble as data: its rates, and for each task the rates beside its model, or the ensemble that does it."""
    inside = st.one_of(RATES, nests(depth - 1)) if depth else RATES
    return {"cost": draw(RATES), "tasks": draw(st.lists(inside, min_size=1, max_size=2 if depth else 1))}


def build(till: Till, nest: Any, prices: dict[str, CostConfiguration | None], *, is_judge: bool = False) -> Ensemble:
    tasks = []
    for number, each in enumerate(nest["tasks"]):
        if isinstance(each, dict):
            tasks.append(Task.of("Have it done", name=f"t{number}", ensemble=build(till, each, prices)))
            continue
        model = f"m{len(prices)}"
        prices[model] = each or nest["cost"]
        tasks.append(Task.of(f"Do {number}", name=f"t{number}", llm=till.spec(model, each)))
    if is_judge:
        model = f"m{len(prices)}"
        prices[model] = nest["cost"]
        tasks.append(Task.of("Judge {output}", name="judge", llm=till.spec(model), output_type=VERDICT_TYPE))
    return Ensemble(tasks=tasks, cost=nest["cost"], workflow="sequential")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nest=nests(), judges=st.lists(nests(depth=1), max_size=2), cached=st.sampled_from([0, 50]))
def test_t10_v14_estimate_metrics_frames_and_the_bill_of_the_server_are_one_number(
    till: Till, tmp_path: Path, nest: Any, judges: list[Any], cached: int
) -> None:
    till.bill, till.cached = {}, cached
    prices: dict[str, CostConfiguration | None] = {}
    ensemble = build(till, nest, prices)
    score = {f"j{number}": build(till, each, prices, is_judge=True) for number, each in enumerate(judges)}
    rows = [{"q": "a"}, {"q": "b"}]
    estimate = ensemble.estimate(rows=rows, score=score or None)
    result = ensemble.map(rows, score=score or None)
    cost, is_complete = till.add_up(prices)

    metrics, trace = result.metrics, result.trace
    assert (metrics.cost, metrics.cost_complete) == (cost, is_complete)
    assert trace is not None
    assert find_violations(trace) == []
    attempts = trace.frames.attempts
    assert attempts.cost.sum() == pytest.approx(float(cost or 0))
    assert attempts.cost.isna().any() == (not is_complete)
    frame = result.frame
    assert float(frame.cost.fillna(0).sum()) + float(frame.get("score_cost", frame.cost * 0).fillna(0).sum()) == (
        pytest.approx(float(cost or 0))
    )
    assert (estimate.cost is None) == (not is_complete)
    if estimate.cost is not None and cost is not None:
        assert estimate.cost.low <= cost <= estimate.cost.high
    assert ExecutionTrace.load(trace.save(tmp_path / "x.trace.json")).metrics.cost == cost
    assert ExecutionTrace.from_events(trace.events).metrics.cost == cost  # the events alone tell the prices


def test_v7_t10_a_judge_is_priced_by_its_own_ensemble_and_nothing_is_inherited(till: Till) -> None:
    ensemble = Ensemble(tasks=[Task.of("Do {q}", name="do")], llm=till.spec("m"), cost=CHEAP)
    dear = ensemble.map([{"q": "1"}], score={"ok": judge(till, cost=DEAR)})
    assert dear.metrics.cost == till.add_up({"m": CostConfiguration(**CHEAP), "judge": CostConfiguration(**DEAR)})[0]
    assert float(dear.frame.score_cost.sum() + dear.frame.cost.sum()) == pytest.approx(float(dear.metrics.cost or 0))
    till.bill = {}
    unknown, rows = judge(till), [{"q": "1"}]
    assert ensemble.estimate(rows=rows, score={"ok": unknown}).unpriced == ("judge",)
    free = ensemble.map(rows, score={"ok": unknown})
    assert (free.metrics.cost, free.metrics.cost_complete) == till.add_up(
        {"m": CostConfiguration(**CHEAP), "judge": None}
    )
    assert free.frame.score_cost.isna().all()
    assert not free.metrics.cost_complete


@pytest.mark.usefixtures("store_path")
def test_t10_stored_and_resumed_runs_come_to_the_same_cost(till: Till) -> None:
    inner = Ensemble(tasks=[Task.of("Inside", name="in")], llm=till.spec("inner", DEAR))
    tasks = [Task.of("Have it done", name="nest", ensemble=inner), Task.of("Last", name="last", llm=till.spec("m"))]
    ensemble = Ensemble(tasks=tasks, cost=CHEAP, workflow="sequential")
    output = ensemble.run()
    prices = {"inner": CostConfiguration(**DEAR), "m": CostConfiguration(**CHEAP)}
    cost = till.add_up(prices)[0]
    wait_for_store()
    assert output.metrics.cost == cost
    assert load_traces().runs.cost.tolist() == pytest.approx([float(cost or 0)])
    assert ensemble.run(resume=output).metrics.cost == 0  # what is kept costs nothing
    again = ensemble.replace(cost=DEAR).run(reuse=True)  # a price makes no task another one
    assert [each.reused for each in again] == [True, True]
    assert len(till.bill["inner"]) == 1


# --- A price beside a model -------------------------------------------------------------------------------------------


def test_e56_a_price_stands_beside_a_model_wherever_one_is_named(till: Till) -> None:
    prices = {name: CostConfiguration(input_rate=number, output_rate=1) for number, name in enumerate("abcd", 1)}
    cook = Agent(role="Cook", goal="g", llm=till.spec("a", prices["a"]))
    helper = Agent(role="Helper", goal="g", llm=till.spec("b", prices["b"]))
    tasks = [
        Task.of("One", name="one", agent=cook),
        Task.of("Two", name="two", agent=Agent(role="Broken", goal="g", llm=ScriptedChatModel()), fallback=helper),
        Task.of("Three", name="three", llm=till.spec("c", prices["c"])),
        Task.of("Four", name="four"),
    ]
    output = Ensemble(tasks=tasks, llm=till.spec("d", prices["d"])).run()
    assert set(till.bill) == set("abcd")
    assert output.metrics.cost == till.add_up(prices)[0]


def test_e56_a_model_object_takes_a_price_in_the_same_form_and_nothing_else() -> None:
    chat = ScriptedChatModel(default="three short words")
    output = Ensemble(tasks=[Task.of("Say")], llm={"model": chat, "cost": {"input_rate": 0, "output_rate": 2}}).run()
    assert output.metrics.cost == 2 * (output.metrics.output_tokens or 0) > 0
    with pytest.raises(ValidationError, match=r"takes nothing but cost beside it: give temperature to the object"):
        Agent(role="r", goal="g", llm={"model": chat, "temperature": 0})
    with pytest.raises(ValidationError, match=r"Task llm has a price that can't be meant: .*input_rate must be"):
        Task.of("t", llm={"model": "m", "cost": {"input_rate": -1, "output_rate": 0}})


def test_e56_a_manager_and_its_workers_have_prices_of_their_own(till: Till) -> None:
    def lead(request: Request) -> Answer | None:
        if request.body["model"] == "boss" and len(request.body["messages"]) == 2:
            arguments = {"agent_role": "Cook", "task_description": "Cook it"}
            till.bill.setdefault("boss", []).append((11, 0, 7))
            return Answer(None, calls=[("delegate_task", arguments)], usage=(11, 7), model="boss")
        return till.answer(request)

    till.server.choose = lead
    cook = Agent(role="Cook", goal="g", llm=till.spec("cook", CHEAP))
    boss = till.spec("boss", DEAR)
    output = Ensemble(tasks=[Task.of("Dinner")], agents=[cook], workflow="hierarchical", manager_llm=boss).run()
    prices = {"boss": CostConfiguration(**DEAR), "cook": CostConfiguration(**CHEAP)}
    assert set(till.bill) == {"boss", "cook"}
    assert output.metrics.cost == till.add_up(prices)[0]


def test_e56_a_cell_has_the_price_of_a_model_and_of_a_variable() -> None:
    chat = ScriptedChatModel(default="three short words")
    mapping = {"model": chat, "cost": {"input_rate": 1, "output_rate": 2}}
    costs = []
    for line in ("llm: {model: chat, cost: {input_rate: 1, output_rate: 2}}", "llm: priced"):
        cell = read_cell(f"{line}\ntasks: [Say hello]\n", {"chat": chat, "priced": mapping})
        ensemble = cell.build()
        costs.append(ensemble.run().metrics.cost)
        assert "cost: {input_rate: 1, output_rate: 2}" in ensemble.to_yaml({"chat": chat})
    assert costs[0] == costs[1] is not None
    assert costs[0] > 0


def test_e73_two_prices_of_one_model_are_two_costs_and_variants_may_change_cost(till: Till) -> None:
    cheap, dear = till.spec("m", CHEAP), till.spec("m", DEAR)
    ensemble = Ensemble(tasks=[Task.of("Do {q}", name="do")], llm=till.spec("m"))
    changes: dict[str, dict[str, Any]] = {"cheap": {"llm": cheap}, "dear": {"llm": dear}, "cost": {"cost": DEAR}}
    frame = ensemble.variants(changes).map([{"q": "1"}, {"q": "2"}]).frame
    costs = frame.cost.groupby(level=0).sum()
    assert costs["dear"] == pytest.approx(1000 * costs["cheap"])
    assert costs["cost"] == costs["dear"]
    with pytest.raises(ValidationError, match="cost is in EUR, and all variants together are paid in USD"):
        ensemble.variants({"euro": {"cost": {**DEAR, "currency": "EUR"}}})


# --- Unknown prices and other currencies ------------------------------------------------------------------------------


def test_e54_e36_an_unpriced_model_inside_is_refused_before_a_dollar_is_spent(till: Till) -> None:
    inner = Ensemble(tasks=[Task.of("Inside", name="in")], llm=till.spec("inner"))
    tasks = [Task.of("First", name="first"), Task.of("Have it done", name="nest", ensemble=inner)]
    ensemble = Ensemble(tasks=tasks, llm=till.spec("m"), cost=CHEAP, budget="$1")
    with pytest.raises(ValidationError, match="The ensemble of task 'nest': The price of inner by 127"):
        ensemble.run()
    with pytest.raises(ValidationError, match="The price of inner"):
        ensemble.estimate()
    outer = Ensemble(tasks=[Task.of("Around", name="around", ensemble=ensemble.replace(budget=None))], budget="$1")
    with pytest.raises(ValidationError, match="The ensemble of task 'around': The price of inner"):
        outer.run()
    clerk = Agent(role="Clerk", goal="Count", tools=[inner.as_tool("count", "Counts.")])
    counted = Ensemble(tasks=[Task.of("Count", agent=clerk)], llm=till.spec("m"), cost=CHEAP, budget="$1")
    with pytest.raises(ValidationError, match="The tool 'count': The price of inner by 127"):
        counted.run()
    outer = outer.replace(tasks=[Task.of("Around", name="around", ensemble=counted.replace(budget=None))])
    with pytest.raises(ValidationError, match="The ensemble of task 'around': The price of inner by 127"):
        outer.run()
    assert till.bill == {}
    allowed = ensemble.replace(budget={"max_cost": 1, "allow_unknown_cost": True}).run()
    assert allowed.status is RunStatus.COMPLETED


def test_v7_e36_an_unpriced_judge_is_refused_before_a_row_runs(till: Till) -> None:
    ensemble = Ensemble(tasks=[Task.of("Do {q}", name="do")], llm=till.spec("m"), cost=CHEAP, budget="$1")
    with pytest.raises(ValidationError, match="The judge judge: The price of judge by 127"):
        ensemble.map([{"q": "1"}], score={"ok": judge(till)})
    assert till.bill == {}


def test_t10_a_price_in_another_currency_is_refused(till: Till) -> None:
    euro = {**CHEAP, "currency": "EUR"}
    plain = Ensemble(tasks=[Task.of("Do {q}", name="do")], llm=till.spec("m"), cost=CHEAP)
    for ensemble in (
        plain.replace(llm=till.spec("m", euro)),
        Ensemble(tasks=[Task.of("Nest", name="nest", ensemble=plain.replace(cost=euro), inputs={"q": "1"})]),
    ):
        with pytest.raises(ValidationError, match="is in EUR, and the costs of the run are in USD"):
            ensemble.validate()
    with pytest.raises(ValidationError, match="The cost of the judge judge is in EUR"):
        plain.map([{"q": "1"}], score={"ok": judge(till, cost=euro)})
    assert plain.replace(cost=euro).run(q="1").metrics.currency == "EUR"


def test_t10_a_run_that_code_begins_inside_in_another_currency_has_an_unknown_cost(till: Till) -> None:
    inner = Ensemble(tasks=[Task.of("Inside")], llm=till.spec("inner"), cost={**CHEAP, "currency": "EUR"})
    output = Ensemble(tasks=[Task.of("Outside", name="out", handler=lambda _: inner.run().raw)]).run()
    assert (output.metrics.cost, output.metrics.cost_complete) == (None, False)


@pytest.mark.usefixtures("store_path")
def test_t3_a_refused_request_does_not_make_an_unknown_price_nothing(till: Till) -> None:
    till.server.script(Answer.status(429, retry_after=0))
    output = Ensemble(tasks=[Task.of("Do it")], llm=till.spec("m")).run()
    assert (output.metrics.cost, output.metrics.cost_complete) == (None, False)
    wait_for_store()
    assert load_traces().runs.cost.isna().all()


def test_v11_t3_a_row_of_which_a_part_has_no_price_costs_nobody_knows_what(till: Till) -> None:
    inner = Ensemble(tasks=[Task.of("Inside", name="in")], llm=till.spec("inner"))
    tasks = [Task.of("Do {q}", name="do"), Task.of("Have it done", name="nest", ensemble=inner)]
    ensemble = Ensemble(tasks=tasks, llm=till.spec("m", CHEAP))
    result = ensemble.map([{"q": "1"}, {"q": "2"}], score={"ok": lambda output: True})
    assert (result.frame.cost > 0).all()
    assert result.summary().cost.isna().all()
    again = ensemble.map([{"q": "1"}, {"q": "2"}, {"q": "3"}], score={"ok": lambda output: True}, resume=result)
    assert again.summary().cost.isna().all()
    priced = ensemble.variants({"a": {"task.nest.ensemble": inner.replace(cost=DEAR)}}).map([{"q": "1"}, {"q": "2"}])
    assert (priced.summary().cost > 0).all()


def test_t3_what_an_agent_costs_is_unknown_where_nothing_but_a_refusal_is_known(till: Till) -> None:
    till.server.script(Answer.status(429, retry_after=0))
    output = Ensemble(tasks=[Task.of("Do it")], llm=till.spec("m")).run()
    agents = output.trace.frames.agents
    assert (agents.cost.isna() & ~agents.cost_complete).all()


def test_t10_openais_prices_are_those_at_its_own_address(till: Till) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model="gpt-4o-mini", base_url=till.server.url, api_key="k")  # type: ignore[arg-type]
    for llm in (chat, f"openai:gpt-4o-mini@{till.server.url}"):
        output = Ensemble(tasks=[Task.of("Do it")], llm=llm).run()
        assert output.metrics.cost is None
        assert output.trace.frames.llm_calls.provider.tolist() == ["127.0.0.1"]


# --- What a budget says where it leaves too little --------------------------------------------------------------------


def test_e36_w20_a_budget_that_is_not_used_up_says_what_is_left_and_what_the_next_call_may_need(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.default = Answer("ok", usage=(400, 138))
    tasks = [Task.of("a", name="a"), Task.of("b " * 700, name="b"), Task.of("c", name="c")]
    llm = {"model": "m", "base_url": server.url}
    with caplog.at_level("INFO", "ensemble_notebook.run"):
        output = Ensemble(tasks=tasks, llm=llm, budget="1500 tokens", workflow="sequential").run()
    assert output.status is RunStatus.BUDGET_EXCEEDED
    reasons = {each.name: each.reason for each in output.skipped}
    said = re.search(r"962 tokens are left; the next call may need [\d,]+", reasons["b"])
    assert said is not None
    assert reasons["c"] == f"not started: {said[0]}"
    assert output.trace.events[-1].shortfall == said[0]
    shown = output._repr_mimebundle_()["text/plain"]
    assert re.search(
        rf"Stopped by its budget after \S+ m?s \({re.escape(said[0])}\); 1 of 3 tasks done, 2 skipped", shown
    )
    assert f"stopped by its budget ({said[0]}) after" in caplog.text
    money = Ensemble(tasks=tasks, llm=llm | {"cost": DEAR}, budget="$1.50", workflow="sequential").run()
    assert "$0.824 is left; the next call may need $" in " ".join(each.reason for each in money.skipped)
    calls = Ensemble(tasks=tasks, llm=llm, budget="1 calls", workflow="sequential").run()
    assert calls.trace.events[-1].shortfall is None
    assert "Budget used up after" in calls._repr_mimebundle_()["text/plain"]
