"""What one ensemble can check by itself (E4)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, ReviewPolicy, Workflow
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.errors import ValidationError

WRITE = Task.of("Write")


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        EnsembleDefinition(**{"tasks": [WRITE], **fields})
    return str(caught.value)


def test_an_ensemble_is_sequential_and_fails_fast_unless_it_says_otherwise_e4() -> None:
    ensemble = EnsembleDefinition(tasks=[WRITE])
    assert (ensemble.workflow, ensemble.error_strategy) == (Workflow.SEQUENTIAL, ErrorStrategy.FAIL_FAST)
    assert (ensemble.llm, ensemble.max_concurrency, ensemble.cost, ensemble.name) == (None, None, None, None)
    assert (ensemble.phases, ensemble.agents, ensemble.listeners, dict(ensemble.inputs)) == ((), (), (), {})


@pytest.mark.parametrize("field, kind", [("tasks", "Task"), ("phases", "Phase"), ("agents", "Agent")])
def test_members_are_of_their_kind(field: str, kind: str) -> None:
    assert refusal(**{field: [3]}) == f"Ensemble {field}[0] must be a {kind}, got int."


def test_members_that_were_swapped_are_named() -> None:
    assert refusal(tasks=[WRITE, Phase.of("draft", WRITE)]) == "Ensemble tasks[1] must be a Task, got Phase."


class Watcher:
    def on_event(self, event: Any) -> None: ...


class AsyncWatcher:
    async def on_event(self, event: Any) -> None: ...


async def watch(event: Any) -> None: ...


def test_a_listener_is_callable_or_has_on_event() -> None:
    listeners = (print, Watcher())
    assert EnsembleDefinition(tasks=[WRITE], listeners=listeners).listeners == listeners
    assert refusal(listeners=[print, 3]) == "Listener at index 1 (int) is neither callable nor has on_event(event)."


@pytest.mark.parametrize("listener", [AsyncWatcher(), watch], ids=["object", "function"])
def test_a_listener_that_nobody_would_await_is_refused(listener: Any) -> None:
    assert "is async; make it a plain function" in refusal(listeners=[listener])


class AsyncExporter:
    async def export(self, trace: Any) -> None: ...


@pytest.mark.parametrize("exporter", [AsyncExporter(), watch], ids=["object", "function"])
def test_an_exporter_that_nobody_would_await_is_refused(exporter: Any) -> None:
    assert "trace_exporter is async; make it a plain function" in refusal(trace_exporter=exporter)


def test_a_memory_can_be_written_as_well_as_read() -> None:
    class ReadOnly:
        def retrieve(self, scope: str, query: str, limit: int) -> Any: ...

    assert refusal(memory=ReadOnly()).startswith("Ensemble memory must be an object with store(scope, entry) and")


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "2"], ids=repr)
def test_concurrency_is_at_least_1(value: Any) -> None:
    assert refusal(max_concurrency=value) == f"Ensemble max_concurrency must be a whole number >= 1, got {value!r}."


def test_cost_is_a_cost_configuration() -> None:
    own = CostConfiguration(input_rate=1, output_rate=2)
    assert EnsembleDefinition(tasks=[WRITE], cost=own).cost is own
    assert refusal(cost=0.1).startswith("Ensemble cost must be a CostConfiguration, or a mapping such as {")


@pytest.mark.parametrize("name", ["", "a b", "größe", "a-b", 3])
def test_inputs_are_named_like_template_variables_e6(name: Any) -> None:
    assert refusal(inputs={name: 1}).startswith(f"Input {name!r} can't be a template variable")


def test_inputs_map_names_to_values() -> None:
    assert refusal(inputs=["topic"]) == "Ensemble inputs must map names to values, got list."


def test_a_model_is_checked_by_its_form() -> None:
    assert refusal(llm=3).startswith("Ensemble llm must be a LangChain chat model or a spec text")


# --- the manager, limits, reviews, memory, traces ---


def test_what_is_left_out_limits_and_asks_nothing_e4() -> None:
    ensemble = EnsembleDefinition(tasks=[WRITE])
    assert (ensemble.manager_llm, ensemble.manager_max_iterations, ensemble.manager_prompt) == (None, 20, None)
    assert (ensemble.hierarchical_constraints, ensemble.delegation_policies) == (None, ())
    assert (ensemble.max_delegation_depth, ensemble.capture_mode, ensemble.trace_exporter) == (3, None, None)
    assert (ensemble.rate_limit, ensemble.budget, ensemble.memory) == (None, None, None)
    assert (ensemble.review_handler, ensemble.review_policy) == (None, ReviewPolicy.NEVER)


class Prompt:
    def system(self, workers: Any) -> str:
        return ""

    def user(self, tasks: Any) -> str:
        return ""


class Store:
    def store(self, scope: str, entry: Any) -> None: ...

    def retrieve(self, scope: str, query: str, limit: int) -> list[Any]:
        return []


class Exporter:
    def export(self, trace: Any) -> None: ...


class Policy:
    def evaluate(self, request: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    "field, value",
    [
        ("manager_llm", "local"),
        ("manager_prompt", Prompt()),
        ("hierarchical_constraints", HierarchicalConstraints()),
        ("delegation_policies", (Policy(), print)),
        ("trace_exporter", Exporter()),
        ("trace_exporter", print),
        ("rate_limit", RateLimit(1, 1)),
        ("budget", Budget(max_tokens=1)),
        ("memory", Store()),
        ("review_handler", print),
    ],
)
def test_objects_of_the_right_form_are_kept_as_they_are(field: str, value: Any) -> None:
    assert getattr(EnsembleDefinition(tasks=[WRITE], **{field: value}), field) == value


@pytest.mark.parametrize(
    "field, value, told",
    [
        ("manager_llm", " ", "Ensemble manager_llm must not be blank."),
        ("manager_prompt", print, "Ensemble manager_prompt must be an object with system(workers) and user(tasks)"),
        ("manager_prompt", Prompt, "Ensemble manager_prompt must be an object with system(workers) and user(tasks)"),
        (
            "hierarchical_constraints",
            ["Writer"],
            "Ensemble hierarchical_constraints must be HierarchicalConstraints, or a mapping such as {",
        ),
        ("delegation_policies", [print, 3], "Policy at index 1 (int) is neither callable nor has evaluate(request, "),
        ("delegation_policies", [Policy], "Policy at index 0 (type) is neither callable"),
        ("max_delegation_depth", 0, "Ensemble max_delegation_depth must be a whole number >= 1, got 0."),
        ("capture_mode", "ful", "Ensemble capture_mode can't be 'ful'. Did you mean 'full'?"),
        ("trace_exporter", 3, "Ensemble trace_exporter must be an object with export(trace), got int."),
        ("rate_limit", 3, "Ensemble rate_limit must be a RateLimit, a text such as '60/min', or a mapping"),
        ("budget", 3, "Ensemble budget must be a Budget, a text such as '$0.50, 20k tokens', or a mapping"),
        ("memory", {}, "Ensemble memory must be an object with store(scope, entry) and retrieve(scope, query, limit)"),
        ("review_handler", 3, "Ensemble review_handler must be a function (ReviewRequest) -> ReviewDecision, got 3."),
        ("review_policy", "ever", "Ensemble review_policy can't be 'ever'. Did you mean 'never'?"),
    ],
)
def test_what_is_of_another_form_is_refused(field: str, value: Any, told: str) -> None:
    assert refusal(**{field: value}).startswith(told)


@pytest.mark.parametrize("value", ["off", "Standard", CaptureMode.FULL], ids=str)
def test_a_capture_mode_is_a_member_or_its_name(value: Any) -> None:
    assert EnsembleDefinition(tasks=[WRITE], capture_mode=value).capture_mode is CaptureMode(value.lower())
