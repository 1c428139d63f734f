"""How definitions are declared, rightly and wrongly, as mypy and pyright see it.

Nothing here runs. A line with ``# error: WORD`` must be refused by both checkers, in a message with that word; every
other line must pass both.
"""

# pyright: strict

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TypedDict, assert_type

import ensemble_notebook
from ensemble_notebook import (
    Agent,
    Budget,
    Condition,
    CostConfiguration,
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    Ensemble,
    EntityMemory,
    Event,
    ExecutionTrace,
    GuardrailResult,
    HierarchicalConstraints,
    JsonTraceExporter,
    OnTimeout,
    Phase,
    PhaseReview,
    RateLimit,
    Review,
    ReviewDecision,
    ReviewRequest,
    ReviewTiming,
    RunContext,
    ScriptedChatModel,
    SqliteMemory,
    Task,
    TaskInput,
    TaskOutput,
    ToolResult,
    Workflow,
    auto_review,
    console_review,
)


@dataclass
class Summary:
    text: str


class Facts(TypedDict):
    count: int


def look_up(word: str) -> str:
    return word


def write(task: TaskInput) -> ToolResult:
    return ToolResult.ok(task.description)


async def write_later(task: TaskInput) -> str:
    return task.name


def read(output: TaskOutput) -> str:
    return output.raw


def guard(task: TaskInput) -> GuardrailResult | None:
    return GuardrailResult.failure("too long") if len(task.description) > 100 else None


def policy(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
    return DelegationPolicyResult.allow() if context.depth < 2 else DelegationPolicyResult.reject(request.agent_role)


async def ask(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.retry(request.text)


def note(event: Event) -> None:
    print(event.seq)


def keep(trace: ExecutionTrace) -> None:
    print(trace.run_id)


class Shouter:
    name = "shout"
    description = "Writes in capitals"

    def execute(self, text: str, /) -> str:
        return text.upper()


class Counter:
    def on_event(self, event: Event, /) -> None:
        print(event.run_id)


# --- Agent ------------------------------------------------------------------------------------------------------------

writer = Agent(role="Writer", goal="Write", llm="local", tools=[look_up, Shouter()], rate_limit=RateLimit(5, 1))
Agent(role="Writer", goal="Write", llm=ScriptedChatModel(), background="Wrote before", llm_timeout=None)
Agent(role="Writer", goal="Write", llm={"model": "openai:gpt-5", "api_key_env": "KEY"}, max_retries=0)
assert_type(writer.role, str)
assert_type(writer.max_iterations, int)
Agent(role="Writer")  # error: goal
Agent("Writer", "Write")  # error: positional
Agent(role="Writer", goal="Write", backstory="Wrote before")  # error: backstory
Agent(role="Writer", goal="Write", llm=None)  # error: llm
Agent(role="Writer", goal="Write", max_iterations="5")  # error: max_iterations
Agent(role=3, goal="Write")  # error: role
writer.role = "Reader"  # error: role

# --- Task -------------------------------------------------------------------------------------------------------------

draft = Task(
    description="Write", expected_output="A page", agent=writer, name="draft", timeout=2.5, output_type=Summary
)
edit = Task.of("Edit", context=[draft, "facts"], when=Condition(draft, contains="urgent"), output_type=Facts)
Task.of("Edit", handler=write, memory=["drafts"])
Task.of("Edit", handler=write_later, input_guardrails=guard, output_guardrails=[lambda output: output.raw == ""])
Task.of("Edit", handler=Shouter(), when=[Condition("draft", matches="a+"), Condition("draft", default=True)])
Task.of("Edit", handler=lambda task: task.description, review="after", tools=look_up, rate_limit="60/min")
Task.of("Edit", review="aftr")  # error: review
Task(description="Edit", review=[{"timing": "before", "timeout": None}, "after"], context=draft, memory="drafts")
Task(description="Edit", when={"facts": {"contains": "x"}}, rate_limit={"requests": 5, "period": 1}, review=True)
Task(description="Edit", when=[{draft: "default"}, Condition("facts", equals="x")], context="facts")
Task(description="Edit", output_type={"title": "str", "tags": ["str"]}, fallback={"role": "Writer", "goal": "Write"})
Task.of("Edit", review=Review("before", on_timeout="fail"), output_type={"type": "object"})
Task.of("Edit", review=[Review(ReviewTiming.BEFORE), Review(timing="after", timeout=None)], tools=[look_up])
Task(prompt="Shorten {context}", context=draft, output_type={"title": "str"}, history="20 turns")
Agent(role="Clerk", goal="Sort", system_prompt="", history="8k tokens, summarised")
Ensemble(tasks=[draft], texts={"correction": "Again: {error}"}, deps=object())
Task(ensemble=Ensemble(tasks=[draft]), inputs={"topic": "{topic}"}, name="nested", context=["facts"])
Task(ensemble=Ensemble(tasks=[draft]), description="Edit", expected_output="A page")
Task.of("Edit", ensemble=Ensemble(tasks=[draft]))
assert_type(draft.description, str)
assert_type(draft.when, tuple[Condition, ...])
assert_type(draft.review, tuple[Review, ...])
assert_type(edit, Task)
Task(nonsense=3)  # error: overload
Task(prompt="Shorten", ensemble=Ensemble(tasks=[draft]))  # error: overload
Task.of("Edit", nonsense=3)  # error: nonsense
Task("Edit", "A page")  # error: overload
Task(ensemble=Ensemble(tasks=[draft]), nonsense=3)  # error: overload
Task.of("Edit", ensemble=draft)  # error: ensemble
Task.of("Edit", context=3)  # error: context
Task.of("Edit", rate_limit=60)  # error: rate_limit
assert_type(edit.context, tuple[Task | str, ...])
assert_type(edit.rate_limit, RateLimit | None)
assert_type(edit.tools, tuple[object, ...])
Task.of("Edit", timeout="3")  # error: timeout
Task.of("Edit", handler=read)  # error: handler
Task.of("Edit", handler="write")  # error: handler
Task.of("Edit", output_type=3)  # error: output_type
Task.of("Edit", when="draft")  # error: when
Task.of("Edit", fallback="Writer")  # error: fallback
Task.of("Edit", input_guardrails=[read])  # error: TaskInput
Task.of("Edit", memory=3)  # error: memory
draft.name = "other"  # error: name
draft.nonsense  # error: nonsense
ensemble_notebook.Nonsense  # error: Nonsense

# --- Condition, Review, Phase -----------------------------------------------------------------------------------------

Condition(draft, predicate=lambda output: "urgent" in output.raw)
Condition("draft", equals="yes")
Condition(3, equals="yes")  # error: ConditionSource
Condition(draft, contains=3)  # error: contains
Condition(draft, predicate=guard)  # error: predicate
Condition(draft, is_urgent=True)  # error: is_urgent

assert_type(Review("after").timing, ReviewTiming)
assert_type(Review("after").on_timeout, OnTimeout)
Review("sometimes")  # error: ReviewTiming
Review("after", timeout="long")  # error: timeout
Review("after", on_timeout="wait")  # error: on_timeout

phase = Phase.of("write", draft, edit, workflow="parallel", after=["read"], review=ask)
Phase(name="print", tasks=[draft], workflow=Workflow.SEQUENTIAL, after=[phase], review=PhaseReview(edit, max_retries=1))
assert_type(phase.workflow, Workflow | None)
assert_type(phase.review, PhaseReview | None)
Phase.of("write", [draft, edit], after="read", when={"facts": "yes"}, review="Is this fit to print?")
Phase(name="print", tasks=[draft], review={"by": ask, "max_retries": 1}, after=phase)
Phase.of("write", draft, review=3)  # error: review
Phase.of("write", 3)  # error: Task
Phase.of("write", draft, before=["read"])  # error: before
Phase(name="write", tasks=[draft], workflow="random")  # error: workflow
Phase(name="write")  # error: tasks
PhaseReview(guard)  # error: TaskInput

# --- Limits -----------------------------------------------------------------------------------------------------------

assert_type(Budget(max_cost=0.5, max_tokens=1000, warn_at=0.5).max_cost, Decimal | None)
Budget(max_cost="0.50", max_llm_calls=3, allow_unknown_cost=True)
Budget(max_cost=Decimal(1))
Budget(max_cost=[1])  # error: max_cost
Budget(max_tokens="many")  # error: max_tokens
Budget(max_requests=3)  # error: max_requests
assert_type(RateLimit(5, timedelta(minutes=1)).period, float)
RateLimit(5, 60, wait_timeout=timedelta(seconds=2))
RateLimit(5)  # error: period
RateLimit("5", 60)  # error: int
assert_type(CostConfiguration(input_rate="0.001", output_rate=0.002).input_rate, Decimal)
CostConfiguration(input_rate=1)  # error: output_rate
CostConfiguration(input_rate=1, output_rate=None)  # error: output_rate

# --- Ensemble ---------------------------------------------------------------------------------------------------------

team = Ensemble(
    tasks=[draft, edit],
    agents=[writer],
    llm="openai:gpt-5",
    workflow="hierarchical",
    error_strategy="continue_on_error",
    manager_llm=ScriptedChatModel(),
    hierarchical_constraints=HierarchicalConstraints(required_workers=["Writer"], required_stages=[["Writer"]]),
    delegation_policies=[policy],
    listeners=[note, Counter(), lambda event: print(event.time)],
    capture_mode="full",
    trace_exporter=JsonTraceExporter("traces"),
    rate_limit=RateLimit(5, 1),
    budget=Budget(max_cost=1),
    max_concurrency=2,
    memory=EntityMemory(SqliteMemory("facts.db")),
    review_handler=ask,
    review_policy="after_every_task",
    cost=CostConfiguration(input_rate=1, output_rate=2),
    inputs={"topic": "tides", "count": 3},
    name="team",
)
Ensemble(phases=[phase], workflow=Workflow.PARALLEL, trace_exporter=keep, review_handler=console_review)
Ensemble(tasks=(draft,), review_handler=auto_review(ReviewDecision.approve()))
assert_type(team.workflow, Workflow)
assert_type(team.name, str | None)
Ensemble(task=[draft])  # error: task
Ensemble([draft])  # error: positional
Ensemble(tasks=["draft"])  # error: str
Ensemble(tasks=[draft], workflow="paralel")  # error: workflow
Ensemble(tasks=[draft], error_strategy="ignore")  # error: error_strategy
Ensemble(tasks=[draft], listeners=[read])  # error: TaskOutput
Ensemble(tasks=[draft], delegation_policies=[guard])  # error: TaskInput
Ensemble(tasks=[draft], budget=3)  # error: budget
Ensemble(tasks=[draft], memory="facts.db", trace_exporter="traces", budget="$1", rate_limit="60/min", listeners=note)
Ensemble(tasks=[draft], memory=True, budget={"max_cost": 1}, cost={"input_rate": 1, "output_rate": 2})
Ensemble(tasks=[draft], hierarchical_constraints={"required_workers": "Writer"}, delegation_policies=policy)
Ensemble(tasks=[draft], memory=3)  # error: memory
Ensemble(tasks=[draft], trace_exporter=3)  # error: trace_exporter
Ensemble(tasks=[draft], cost=3)  # error: cost
assert_type(team.replace(llm="local", budget="$1"), Ensemble)
assert_type(team.budget, Budget | None)
team.replace(bugdet="$1")  # error: bugdet
team.replace(budget=3)  # error: budget
Ensemble(tasks=[draft], review_handler=guard)  # error: review_handler
Ensemble(tasks=[draft], inputs=["topic"])  # error: inputs
team.workflow = Workflow.PARALLEL  # error: workflow

promised: Awaitable[ReviewDecision] = ask(ReviewRequest(subject="task", text="Write"))
ReviewRequest(subject="weather", text="Write")  # error: subject


class Bank:
    """What tools of a run are given."""

    def find(self, account: str) -> float:
        return 1.0


def balance(account: str, run: RunContext[Bank]) -> float:
    run.progress("asking", 0.5)
    run.deps.lose(account)  # error: lose
    return run.deps.find(account)


balance("12", RunContext(deps=Bank(), inputs={"who": "Ana"}))
balance("12", RunContext(deps=3))  # error: RunContext
