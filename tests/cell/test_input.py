"""Where the values of template variables come from (C7)."""

import pytest

from tests.support.cell import assert_mistakes, mistakes_of, read


def test_first_found_wins_options_then_inputs_then_notebook():
    text = "inputs: {a: cell, b: cell}\ntasks: ['{a} {b} {c}']"
    cell = read(text, {"a": "notebook", "b": "notebook", "c": "notebook"}, overrides={"inputs": {"a": "option"}})
    assert dict(cell.inputs) == {"a": "option", "b": "cell", "c": "notebook"}
    assert cell.variables == ("a", "b", "c")


def test_only_variables_of_texts_are_taken_from_the_notebook():
    assert dict(read("- '{a}'", {"a": 1, "b": 2}).inputs) == {"a": 1}


def test_values_keep_their_types():
    cell = read("inputs: {n: 3, f: 2.5, on: true, none: null, day: 2024-05-01, list: [1, {k: v}]}\ntasks: [a]")
    assert dict(cell.inputs) == {
        "n": 3,
        "f": 2.5,
        "on": True,
        "none": None,
        "day": "2024-05-01",
        "list": [1, {"k": "v"}],
    }


def test_missing_ones_are_all_shown_in_their_places_once_each():
    text = "- Find «{topic}» in «{place}»\n- {description: 'Again {topic}', expected_output: 'In «{tone}»'}"
    assert_mistakes(text, "{topic} has no value", "{place} has no value", "{tone} has no value")


def test_place_of_a_variable_is_exact_in_folded_texts():
    assert_mistakes("- >\n  some words\n  and {{literal}} «{topic}»\n", "{topic} has no value")


def test_escaped_variable_is_shown_at_its_text():
    assert_mistakes(r'- «"\x7btopic}"»', "{topic} has no value")


def test_literal_braces_need_no_value():
    assert read("- 'a {{topic}} {a-b} {}'").variables == ()


def test_function_of_the_notebook_is_no_value():
    assert_mistakes("- use «{search}»", "is a function", namespace={"search": len})


def test_misspelt_input_is_shown_where_it_is_written():
    text = "inputs: {«topci»: x}\ntasks: ['«{topic}»']"
    assert_mistakes(
        text, r"no text uses the input 'topci'. Did you mean 'topic'\?", r"has no value. Did you mean 'topci'\?"
    )


def test_input_that_can_not_be_read_is_not_missing_as_well():
    assert_mistakes("inputs:\n  «topic»:\ntasks: ['{topic}']", "the input 'topic' has no value")
    assert_mistakes("«inputs»:\ntasks: ['{topic}']", "'inputs' of the cell has no value")


def test_unused_input_is_reported():
    (notice,) = read("inputs:\n  spare: x\ntasks: [a]").notices
    assert (notice.line, notice.message) == (2, "no text uses the input 'spare'.")


def test_unused_option_is_reported_at_the_options():
    (notice,) = read("- a", overrides={"inputs": {"spare": "x"}}).notices
    assert notice.where == "options"


def test_name_that_can_not_be_a_variable_is_a_mistake():
    assert_mistakes("inputs: {«a-b»: x}\ntasks: [a]", "can't be a variable")


PLACES = """
tasks:
  letter: Write about {topic} for {whom}
  reply: {prompt: "Answer «{leter}» {context} «{contxt}» {tone}", context: letter}
"""


def test_dry_run_refuses_misspelt_places_and_tells_of_values_that_a_run_needs_c7():
    assert_mistakes(
        PLACES,
        r"\{leter\} has no value. Did you mean 'context.letter'\?",
        r"\{contxt\} has no value. Did you mean 'context'\?",
        namespace={"tone": "kind"},
        needs_inputs=False,
        is_dry_run=True,
    )
    right = PLACES.replace("«{leter}»", "").replace("«{contxt}»", "")
    cell = read(right, {"tonne": "kind"}, needs_inputs=False, is_dry_run=True)
    assert [(each.line, each.message) for each in cell.notices] == [
        (3, "{topic} has no value, which a run needs."),
        (3, "{whom} has no value, which a run needs."),
        (4, "{tone} has no value, which a run needs. Did you mean 'tonne'?"),
    ]


def test_a_missing_value_names_the_nearest_input_and_variable_of_the_notebook_c7():
    assert_mistakes("- Find {topic} «{topci}»", r"Did you mean 'topic'\?", namespace={"topic": "tides"})
    assert_mistakes("- Find «{topci}»", r"Did you mean 'topic'\?", namespace={"topic": "tides"})


def test_definition_without_values_may_be_asked_for():
    cell = read("- '{topic} {tone}'", needs_inputs=False)
    assert cell.missing == ("topic", "tone")
    assert dict(cell.inputs) == {}


def test_texts_of_agents_stay_as_they_are_when_the_cell_is_read_c7():
    text = "agents: {A: {goal: 'Know {topic}', background: '{{topic}}'}}\ntasks: [{description: x, agent: A}]"
    agent = read(text, {"topic": "tides"}).definition.agents[0]
    assert (agent.goal, agent.background) == ("Know {topic}", "{{topic}}")


def test_missing_variable_of_an_agent_is_shown_in_place():
    assert_mistakes("agents: {A: {goal: 'Know «{topic}»'}}\ntasks: [a]", "{topic} has no value")


def test_ensemble_keeps_the_values_for_another_run():
    assert dict(read("- '{topic}'", {"topic": "tides"}).definition.inputs) == {"topic": "tides"}


@pytest.mark.parametrize("written", ["007", "-01", "00.5"])
def test_number_with_leading_zeros_is_refused_as_ambiguous(written):
    assert_mistakes(f"inputs: {{a: «{written}»}}\ntasks: [a]", "starts with a zero")


@pytest.mark.parametrize(
    "written, value", [("0x1F", 31), ("0o17", 15), ("1e3", 1000.0), ("1_000", "1_000"), ("0.5", 0.5), ("-3", -3)]
)
def test_numbers_are_those_of_yaml_1_2(written, value):
    assert read(f"inputs: {{a: {written}}}\ntasks: ['{{a}}']").inputs["a"] == value


def test_yes_and_no_are_texts():
    assert read("inputs: {a: yes, b: off}\ntasks: ['{a}{b}']").inputs == {"a": "yes", "b": "off"}


def test_endless_number_is_refused():
    assert "too long" in mistakes_of(f"inputs: {{a: {'9' * 5000}}}\ntasks: [a]")[0].message


@pytest.mark.parametrize("reader", ["handler: cook", "input_guardrails: cook"])
def test_input_is_not_noticed_where_code_gets_all_of_them(reader):
    cell = read(f"inputs: {{spare: 1}}\ntasks:\n- {{description: a, {reader}}}\n", {"cook": print})
    assert list(cell.notices) == []
