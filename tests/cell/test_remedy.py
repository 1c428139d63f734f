"""What messages tell a person to do, in the words of a cell (C3, C10, E6, E12)."""

import pytest

from ensemble_notebook import Reply, ScriptedChatModel, ToolUse
from ensemble_notebook.cell.reading.mistakes import in_cell_words, to_cell_words
from ensemble_notebook.errors import EnsembleError
from tests.support.cell import assert_mistakes, mistakes_of, read


@pytest.mark.parametrize(
    "name, line",
    [
        ("claude-sonnet-4-5", "'anthropic:claude-sonnet-4-5'"),
        ("Anthropic:claude-sonnet-4-5", "'anthropic:claude-sonnet-4-5'"),
        ("antropic:claude-sonnet-4-5", "'anthropic:claude-sonnet-4-5'"),
        ("gemini-2.5-pro", "'google_genai:gemini-2.5-pro'"),
        ("gemini:gemini-2.5-pro", "'google_genai:gemini-2.5-pro'"),
        ("mistral:mistral-large", "'mistralai:mistral-large'"),
    ],
)
@pytest.mark.parametrize("is_option", [True, False])
def test_model_of_another_provider_is_told_with_the_spec_that_is_meant(name, line, is_option):
    text, options = ("- x", {"overrides": {"llm": name}}) if is_option else (f"llm: {name}\ntasks: [x]", {})
    (mistake,) = mistakes_of(text, **options)
    assert f"Did you mean {line}?" in f"{mistake.message} {mistake.hint}"


def test_unknown_model_without_a_provider_may_be_one_of_openai():
    (mistake,) = mistakes_of("llm: mygpt\ntasks: [x]")
    assert "openai:mygpt" in mistake.hint


@pytest.mark.parametrize("options", [{"namespace": {"row": {"text": 1}}}, {"overrides": {"inputs": {"row": "x"}}}])
def test_field_of_a_variable_is_a_mistake_with_the_remedy(options):
    assert_mistakes("- Summarize «{row.text}» for {{topic}}", "stays as it is: variables have no fields", **options)


def test_field_of_what_is_no_variable_is_a_warning():
    (notice,) = read("- Explain {row.text} and {{row.text}} and {a-b}").notices
    assert notice.is_warning
    assert "{row.text} stays as it is" in notice.message
    assert "{row_text}" in notice.message


TEMPLATE = """
agents:
  researcher: {role: "{topic} Researcher", goal: "Find out about {topic}", backstory: You read.}
  analyst: {role: "{topic} Analyst", goal: Write, backstory: You write.}
tasks:
  research_task: {description: "Research {topic}", expected_output: A list, agent: researcher}
  reporting_task: {description: Review the context, expected_output: A report, agent: analyst}
"""


@pytest.mark.parametrize(
    "workflow, here", [("", "is a graph: these run at the same time"), ("process: sequential", "only orders the tasks")]
)
def test_pasted_template_of_crewai_says_how_its_tasks_run_here(workflow, here):
    *_, notice = read(workflow + TEMPLATE, {"topic": "tides"}).notices
    assert "in crewAI these tasks run one after the other, and each reads the one before" in notice.message
    assert here in notice.message
    assert "`context: research_task` for 'reporting_task'" in notice.message


def test_pasted_template_with_a_context_is_left_alone():
    text = TEMPLATE.replace("agent: analyst}", "agent: analyst, context: research_task}")
    assert all("crewAI" not in each.message for each in read(text, {"topic": "tides"}).notices)


def test_remedy_of_an_error_in_a_cell_is_yaml():
    ask = Reply(calls=[ToolUse("look", {"text": "x"})])
    cell = read(
        "llm: model\nagents: {A: {goal: g, tools: look, max_iterations: 1}}\ntasks: [{description: x, agent: A}]",
        {"model": ScriptedChatModel(default=ask), "look": look},
    )
    with pytest.raises(EnsembleError) as caught:
        cell.build().run()
    error, words = caught.value, "Raise `max_iterations: ...` under the agent"
    shown = in_cell_words(error)
    assert words in str(shown)
    assert words in str(shown.__cause__)
    assert (type(shown), shown.output) == (type(error), error.output)
    for kept in (error, error.__cause__, error.output.failures[0].error):  # as the run's table and file have it
        assert "`max_iterations: ...`" not in str(kept)
    assert "Raise max_iterations" in error.output.frames.errors.error_message.iloc[-1]
    assert in_cell_words(shown) is shown


def look(text: str) -> str:
    """Look."""
    return text


@pytest.mark.parametrize(
    "python, words",
    [
        ("Raise the agent's llm_timeout.", "Raise `llm_timeout: ...` under the agent."),
        ("or set allow_unknown_cost=True.", "or write `budget: {allow_unknown_cost: true, ...}`."),
        ("own rates with cost=CostConfiguration(...)", "own rates with `cost: {input_rate: ..., output_rate: ...}`"),
        ("Nothing of this kind.", "Nothing of this kind."),
    ],
)
def test_words_of_python_become_those_of_a_cell(python, words):
    assert to_cell_words(python) == words
