"""Each feature of the engine, as a cell says it, does what it does from Python: cells that are built and run."""

import json

import pytest

from ensemble_notebook import (
    ConstraintViolationError,
    Fail,
    RunStatus,
    ScriptedChatModel,
    TaskExecutionError,
    ToolUse,
)
from ensemble_notebook.domain.definitions.review import ReviewDecision
from tests.support.cell import read


def run(text, namespace=None, **options):
    cell = read(text, namespace, **options)
    return cell.build().run(cell.inputs)


def says(*replies, **rules):
    return ScriptedChatModel(replies=list(replies), **rules)


def by_task(**answers):
    return ScriptedChatModel.match(answers, default="fine")


def test_conditions_decide_what_runs():
    model = by_task(**{"Read the letter": "urgent", "Answer": "At once.", "File": "Filed."})
    output = run(
        """
llm: model
tasks:
  triage: {description: Read the letter}
  answer: {description: Answer, when: {triage: {contains: urgent}}}
  file: {description: File, when: {triage: default}}
""",
        {"model": model},
    )
    assert (output["answer"].raw, [each.name for each in output.skipped]) == ("At once.", ["file"])
    assert output.status is RunStatus.COMPLETED


def test_fields_of_a_cell_type_the_output():
    reply = {"title": "Tides", "score": 3}
    model = says("nothing", json.dumps(reply))
    output = run("llm: model\ntasks: [{description: x, output_type: {title: str, score: int}}]", {"model": model})
    assert output.task_outputs[0].parsed_output == reply


def test_agent_of_the_cell_takes_over():
    output = run(
        """
agents:
  Novice: {goal: Try, llm: broken}
  Master: {goal: Do, llm: model}
tasks: [{description: x, agent: Novice, fallback: Master}]
""",
        {"broken": says(Fail(400)), "model": says("Done.")},
    )
    assert (output.raw, output.task_outputs[0].from_fallback) == ("Done.", True)
    assert output.status is RunStatus.COMPLETED_WITH_WARNINGS


def test_partial_runs_return_what_there_is():
    output = run(
        """
error_strategy: partial
tasks:
  good: {description: x, llm: model}
  bad: {description: x, llm: broken}
  both: {description: z, llm: model, context: [good, bad]}
""",
        {"broken": says(Fail(400)), "model": says("A", "B")},
    )
    assert ([each.name for each in output.failures], output["both"].raw) == (["bad"], "B")


def test_guardrail_of_the_notebook_stops_a_task():
    def short(output):
        return "too long" if len(output.raw) > 3 else None

    with pytest.raises(TaskExecutionError) as caught:
        run("llm: model\ntasks: [{description: x, output_guardrails: short}]", {"model": says("long"), "short": short})
    assert "too long" in str(caught.value.__cause__)


@pytest.mark.parametrize("budget, key", [("budget: 1 call\n", {}), ("", {"overrides": {"budget": "1 call"}})])
def test_budget_of_a_cell_or_of_its_options_ends_the_buying(budget, key):
    output = run(f"{budget}llm: model\ntasks: [x, y]", {"model": says("A", "B")}, **key)
    assert (output.status, len(output.task_outputs)) == (RunStatus.BUDGET_EXCEEDED, 1)


def test_review_of_a_task_edits_its_output():
    def ask(request):
        return ReviewDecision.edit(f"{request.text}!")

    text = "llm: model\nreview: {handler: ask}\ntasks: [{description: x, review: after}]"
    assert run(text, {"model": says("Done"), "ask": ask}).raw == "Done!"


def test_agent_asks_a_person_without_an_import():
    model = says(ToolUse("human_input", {"question": "Where?"}), "Brest it is.")
    output = run(
        """
llm: model
review_handler: answer
agents: {Planner: {goal: Plan, tools: [human_input]}}
tasks: {trip: {description: Plan a trip, agent: Planner}}
""",
        {"model": model, "answer": lambda request: ReviewDecision.edit("Brest")},
    )
    assert (output.raw, list(output.frames.tool_calls["result"])) == ("Brest it is.", ["Brest"])


def test_task_that_reviews_its_phase_sends_it_back():
    verdicts = iter(["RETRY: shorter", "APPROVE"])
    model = ScriptedChatModel.match({"Look at it": lambda _: next(verdicts)}, replies=["long", "short"])
    text = "llm: model\nphases: {p: {tasks: {write: Write, check: Look at it}, review: check}}"
    assert run(text, {"model": model})["write"].raw == "short"


def test_memory_of_the_cell_is_read_by_the_next_task():
    model = says("Ann likes tea.", "Tea it is.")
    text = "llm: model\nmemory: true\ntasks: {a: {description: Ask Ann about tea, memory: people}, "
    text += "b: {description: Serve Ann some tea, memory: [people], context: [a]}}"
    run(text, {"model": model})
    assert "## Memory: people" not in model.calls[0].prompt
    assert "## Memory: people" in model.calls[1].prompt


def delegate(role, task):
    return ToolUse("delegate_task", {"agent_role": role, "task_description": task})


TEAM = """
workflow: hierarchical
manager: {llm: boss, max_iterations: 5}
llm: model
agents:
  ann: {role: Researcher, goal: Find}
  Writer: {goal: Write}
tasks: [Make a page]
constraints:
  required_workers: [Writer]
  max_calls_per_worker: {ann: 1}
"""


def test_manager_is_held_to_the_constraints_of_the_cell():
    boss = says(delegate("Researcher", "a"), delegate("Researcher", "b"), delegate("Writer", "c"), "The page.")
    output = run(TEAM, {"boss": boss, "model": says("facts", "prose")})
    assert output.raw == "The page."
    assert [each.agent_role for each in output.task_outputs] == ["Researcher", "Writer", "Manager"]
    with pytest.raises(ConstraintViolationError):
        run(TEAM, {"boss": says("I did it alone."), "model": says()})


def test_policy_of_the_notebook_refuses_a_delegation():
    from ensemble_notebook import DelegationPolicyResult

    def never(request, context):
        return DelegationPolicyResult.reject("not today")

    boss = says(delegate("Writer", "a"), "Nobody helped.")
    text = TEAM.partition("constraints:")[0] + "policies: [never]\n"
    assert run(text, {"boss": boss, "model": says(), "never": never}).raw == "Nobody helped."
    assert "not today" in boss.calls[1].prompt


def test_agents_of_a_cell_delegate_to_each_other():
    ann = says(ToolUse("delegate", {"agent_role": "Bob", "task_description": "Dig"}), "Bob dug.")
    text = "agents: {Ann: {goal: g, llm: ann, allow_delegation: true}, Bob: {goal: h, llm: bob}}\n"
    output = run(f"{text}tasks: [{{description: Have it dug, agent: Ann}}]", {"ann": ann, "bob": says("Dug.")})
    assert (output.raw, output.metrics.delegation_count) == ("Bob dug.", 1)


def test_trace_goes_to_the_path_of_the_cell(tmp_path):
    run(f"llm: model\ncapture_mode: full\ntrace_exporter: {tmp_path}/\ntasks: [x]", {"model": says("A")})
    (file,) = tmp_path.glob("*.trace.json")
    assert json.loads(file.read_text(encoding="utf-8"))
