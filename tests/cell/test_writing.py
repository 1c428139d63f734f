"""Ensembles as text, and back: cells and Python source (C32)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensemble_notebook import (
    Agent,
    Budget,
    Condition,
    CostConfiguration,
    Ensemble,
    HierarchicalConstraints,
    InMemoryStore,
    Phase,
    PhaseReview,
    PromptTexts,
    RateLimit,
    Review,
    SqliteMemory,
    Task,
    Tool,
    ValidationError,
)
from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.vocabulary import ValueKind
from ensemble_notebook.cell.writing.cell_writer import CellWriter
from ensemble_notebook.cell.writing.python_writer import write_python
from ensemble_notebook.cell.writing.yaml_text import write_yaml
from tests.cell.test_guide import EXAMPLES
from tests.cell.test_guide import NAMES as GUIDE_NAMES
from tests.support.written_ensembles import NAMES, PITFALLS, ensembles, look, picture, say, value_for


def run_source(text: str, names: dict) -> Ensemble:
    """The ensemble that source text binds to `desk`."""
    there = dict(names)
    exec(text, there)
    return there["desk"]


def written(ensemble: Ensemble) -> str:
    """The cell of an ensemble; read again, it says the same and is written the same."""
    text = ensemble.to_yaml(NAMES)
    again = Ensemble.from_yaml(text, NAMES)
    assert picture(again) == picture(ensemble), text
    assert again.to_yaml(NAMES) == text
    return text


def refusal(ensemble: Ensemble, names=NAMES) -> str:
    with pytest.raises(ValidationError) as caught:
        ensemble.to_yaml(names)
    return str(caught.value)


# --- the whole language -----------------------------------------------------------------------------------------------


@settings(max_examples=40, suppress_health_check=list(HealthCheck))  # what is drawn may be no ensemble
@given(ensembles())
def test_every_ensemble_is_the_same_after_a_cell_and_after_source(ensemble):
    text = written(ensemble)
    source = write_python(ensemble, NAMES, "desk")
    assert picture(run_source(source, NAMES)) == picture(ensemble), (text, source)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_of_the_guide_is_written_back(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ensemble = read_cell(example, GUIDE_NAMES, needs_inputs=False).build(GUIDE_NAMES)
    text = ensemble.to_yaml(GUIDE_NAMES)
    cell = read_cell(text, GUIDE_NAMES, needs_inputs=False)
    assert cell.notices == ()
    assert picture(cell.build(GUIDE_NAMES)) == picture(ensemble), text
    source = write_python(ensemble, GUIDE_NAMES, "desk")
    assert picture(run_source(source, GUIDE_NAMES)) == picture(ensemble), source


COOK = Agent(role="Cook", goal="Feed people")
FIRST = Task.of("Sort it", name="first", output_type=NAMES["Dish"])
HOLDERS = {
    "agent": lambda fields: Ensemble(tasks=[Task.of("Do it", agent=Agent(**{"role": "Cook", "goal": "Eat"} | fields))]),
    "task": lambda fields: Ensemble(
        tasks=[FIRST, Task(**{"description": "Do it", "expected_output": "Words"} | fields)]
    ),
    "cell": lambda fields: Ensemble(**{"tasks": [Task.of("Do it", agent=COOK)]} | fields),
}
"""How a few fields become an ensemble, by the name of their place."""
PARTS = {
    PromptTexts: lambda fields: {"texts": PromptTexts(**fields)},
    CostConfiguration: lambda fields: {"cost": CostConfiguration(**{"input_rate": 1000, "output_rate": 0} | fields)},
    RateLimit: lambda fields: {"rate_limit": RateLimit(**{"requests": 2, "period": 60} | fields)},
    Budget: lambda fields: {"budget": Budget(**{"max_tokens": 5} | fields)},
    HierarchicalConstraints: lambda fields: {
        "workflow": "hierarchical",
        "hierarchical_constraints": HierarchicalConstraints(**fields),
    },
}
IN_AGENTS = {
    Tool: lambda fields: {"tools": [Tool(**{"tool": look, "review": "before"} | fields)]},
}
IN_TASKS = {
    Review: lambda fields: {"review": Review(**fields)},
    Condition: lambda fields: {
        "when": Condition(FIRST, **(fields if "field" not in fields else fields | {"equals": "x"}))
    },
}
KEYS = [
    (schema, key)
    for schema in vocabulary.SCHEMAS
    if schema.definition is not None and schema.name not in ("phase", "phase review")
    for key in schema.keys.values()
    if key.kind not in (ValueKind.TASKS, ValueKind.PHASES, ValueKind.AGENTS)
]


@pytest.mark.parametrize("schema, key", KEYS, ids=[f"{schema.name}-{key.name}" for schema, key in KEYS])
def test_every_word_is_written_where_it_differs_from_what_holds_without_it(schema, key):
    special = {
        ValueKind.AGENT: st.just(COOK),
        ValueKind.WORKER: st.just(COOK),
        ValueKind.NAMES: st.just([FIRST]),
        ValueKind.WHEN: st.just(Condition(FIRST, contains="x")),
    }

    @settings(max_examples=2)
    @given(special[key.kind] if key.kind in special else value_for(key))
    def try_word(value):
        fields = {key.name: value}
        if schema.name == "texts":
            fields = {key.name: f"{value}: {{error}} {{feedback}}"}
        if key.name in ("inputs", "ensemble") and schema.name == "task":
            fields = {"inputs": {"topic": "tides"}, "ensemble": NAMES["research"]} | fields
            fields["inputs"].setdefault("topic", "tides")
            fields["inputs"] = {"topic": fields["inputs"]["topic"]}
        if key.name == "name":
            fields = {"name": "other"}
        if schema.definition in PARTS:
            ensemble = HOLDERS["cell"](PARTS[schema.definition](fields))
        elif schema.definition in IN_AGENTS:
            ensemble = HOLDERS["agent"](IN_AGENTS[schema.definition](fields))
        elif schema.definition in IN_TASKS:
            ensemble = HOLDERS["task"](IN_TASKS[schema.definition](fields))
        else:
            ensemble = HOLDERS[schema.name](fields)
        text = ensemble.to_yaml(NAMES)
        assert picture(Ensemble.from_yaml(text, NAMES)) == picture(ensemble), text
        source = write_python(ensemble, NAMES, "desk")
        assert picture(run_source(source, NAMES)) == picture(ensemble), source

    try_word()


def test_every_kind_of_value_has_a_writer():
    kinds = {key.kind for schema in vocabulary.SCHEMAS for key in schema.keys.values()}
    assert (
        kinds - {ValueKind.TASKS, ValueKind.PHASES, ValueKind.AGENTS}
        <= CellWriter(Ensemble(tasks=[FIRST]), None).writers.keys()
    )


# --- how it reads -----------------------------------------------------------------------------------------------------


def test_a_chain_is_a_list_and_a_graph_a_mapping():
    first = Task.of("Name three facts about {topic}")
    assert written(Ensemble(tasks=[first, Task.of("Write a haiku from them", context=[first])])) == (
        "- Name three facts about {topic}\n- Write a haiku from them\n"
    )
    gather, risks = (Task.of(f"Find {name}", name=name) for name in ("facts", "risks"))
    brief = Task.of("Write a brief", name="brief", context=[gather, "risks"])
    assert written(Ensemble(tasks=[gather, risks, brief], workflow="parallel")) == (
        "tasks:\n  facts: Find facts\n  risks: Find risks\n"
        "  brief: {description: Write a brief, context: [facts, risks]}\n"
    )
    assert written(Ensemble(tasks=[gather, risks, Task.of("C", name="c")])).startswith("workflow: sequential\ntasks:\n")
    assert "context: []" in written(Ensemble(tasks=[Task.of("A"), Task.of("B")]))


def test_long_texts_stand_in_blocks_and_odd_ones_in_quotes():
    long = "Find out what {topic} is about, and write it so that nobody has to read the sources again, ever."
    text = written(Ensemble(tasks=[Task(description=long, expected_output="Two\nlines", name="long")], llm="local"))
    assert "    description: >-\n      Find out what {topic}" in text
    assert "    expected_output: |-\n      Two\n      lines\n" in text
    assert max(map(len, text.splitlines())) <= 100
    for each in filter(str.strip, PITFALLS):
        assert Ensemble.from_yaml(Ensemble(tasks=[Task.of(each)], llm="local").to_yaml()).tasks[0].description == each


def test_short_forms_are_used_where_they_say_the_same():
    limits = {"rate_limit": RateLimit(60, 60), "budget": Budget(max_cost="0.50", max_tokens=20_000)}
    text = written(Ensemble(tasks=[Task.of("Do it", review=Review())], manager_llm="local", **limits))
    assert "rate_limit: 60/min\n" in text
    assert "budget: $0.50, 20k tokens\n" in text
    assert "manager: local\n" in text
    assert "review: after" in text
    euros = Ensemble(
        tasks=[Task.of("Do it")],
        budget=Budget(max_cost=2),
        cost=CostConfiguration(input_rate=0, output_rate=0, currency="EUR"),
    )
    assert "budget: €2\n" in written(euros)


def test_repeated_names_of_phases_are_short_again():
    text = "phases:\n  a:\n    x: Find {topic}\n  b:\n    after: a\n"
    text += "    tasks:\n      x: {description: Go on, context: a.x}\n"
    ensemble = Ensemble.from_yaml(text)
    assert [task.name for phase in ensemble.phases for task in phase.tasks] == ["a.x", "b.x"]
    assert ensemble.to_yaml() == text


def test_flags_of_an_expression_are_written_into_it():
    first = Task.of("Judge", name="first")
    pattern = re.compile("a.b # c", re.IGNORECASE | re.DOTALL | re.VERBOSE)
    made = Ensemble(tasks=[first, Task.of("Go", when=Condition(first, matches=pattern))])
    again = Ensemble.from_yaml(made.to_yaml()).tasks[1].when[0].matches
    assert again.flags == pattern.flags
    assert again.search("xA\nBx")


def test_files_are_written_by_their_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    for file, path in (("notes.db", "notes.db"), ("notes", "./notes"), ("kept/n.db", "kept/n.db")):
        text = written(Ensemble(tasks=[Task.of("Do it")], memory=SqliteMemory(file)))
        assert f"memory: {path}\n" in text
    assert "memory: true\n" in written(Ensemble(tasks=[Task.of("Do it")], memory=InMemoryStore()))


def test_source_is_left_alone_by_a_formatter(tmp_path):
    wide = (
        "Find out what {topic} is about, and write it so that nobody has to read 'the \"sources\"' again, ever.\nWell."
    )
    cook = Agent(role="Chief Cook", goal=wide, llm={"model": "local", "stop": ["END"] * 12})
    gather = Task(description=wide, expected_output="x" * 100, agent=cook, name="gather", tools=[say, look])
    made = Ensemble(
        tasks=[gather, Task.of("It's done", context=[gather], when=Condition(gather, contains="x"))],
        inputs={"topic": [1.5, {"a": None}], "odd": "a\x00\u2028b", "big": 1e30},
        rate_limit=RateLimit(3, 60),
    )
    (tmp_path / "made.py").write_text(write_python(made, NAMES, "desk"))
    found = subprocess.run(
        [Path(sys.executable).parent / "ruff", "format", "--isolated", "--diff", "--no-cache", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_source_has_imports_first_and_variables_from_roles_and_names():
    limit = RateLimit(2, 60)
    cook = Agent(role="Chief Cook", goal="Feed people", rate_limit=limit)
    soup = Task.of("Cook soup", agent=cook, name="say", tools=[Path.home], handler=None)
    made = Ensemble(tasks=[soup, Task.of("Eat it", context=[soup], rate_limit=limit)], memory=InMemoryStore())
    source = write_python(made, NAMES, "desk")
    assert source.startswith(
        "import pathlib\n\nfrom ensemble_notebook import Agent, Ensemble, InMemoryStore, RateLimit, Task\n"
    )
    for line in (
        "rate_limit = RateLimit(2, 60)",
        "chief_cook = Agent(",
        "say_task = Task.of(",
        "tools=[pathlib.Path.home]",
    ):
        assert line in source
    again = run_source(source, NAMES)
    assert again.tasks[1].rate_limit is again.tasks[0].agent.rate_limit


# --- what has no words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"handler": lambda task: ""}, "The handler of task 'it' is a lambda, which has no name here. Bind it"),
        (
            {"llm": NAMES["model"]},
            "The llm of task 'it' is an object of type ScriptedChatModel, which has no name here.",
        ),
        (
            {"rate_limit": NAMES["bucket"], "agent": Agent(role="A", goal="B", rate_limit=NAMES["bucket"])},
            "would be two",
        ),
        ({"output_type": NAMES["odd_schema"]}, "a JSON schema that a cell would not take"),
        ({"description": "Use sk-proj-" + "aB3" * 14}, "holds what looks like a key"),
        ({"description": "half \ud800"}, "half of a character"),
    ],
)
def test_what_has_no_words_is_named_with_its_place(fields, told):
    message = refusal(
        Ensemble(tasks=[Task(**{"description": "Do it", "expected_output": "x", "name": "it"} | fields)]), None
    )
    assert told in message, message


def test_a_name_that_means_two_things_is_refused():
    def make():
        def cook(task):
            return ""

        return cook

    made = Ensemble(tasks=[Task.of("A", name="a", handler=make()), Task.of("B", name="b", handler=make())])
    assert "is another 'cook' than the one before it" in refusal(made, None)


@pytest.mark.parametrize("value", [object(), (1, 2), {1: 2}, Path("x")])
def test_an_input_that_is_no_data_is_that_of_a_variable(value):
    made = Ensemble(tasks=[Task.of("Look at {thing}")], inputs={"thing": value, "n": 1})
    assert "The input 'thing' is an object of type" in refusal(made, {})
    text = made.to_yaml({"thing": value})
    assert "inputs: {n: 1}" in text.replace('"n"', "n")
    assert Ensemble.from_yaml(text, {"thing": value}).inputs["thing"] is value


def test_an_ensemble_that_can_not_run_is_not_written():
    assert "is not there" in refusal(Ensemble(tasks=[Task.of("A", context=["gone"])]))


def test_dotted_names_stay_as_they_were():
    text = "- {name: cook, description: Cook, handler: os.path.basename}\n"
    assert Ensemble.from_yaml(text).to_yaml() == text
    assert "handler: json.dumps" in Ensemble(tasks=[Task.of("A", handler=__import__("json").dumps)]).to_yaml()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=9
    )
)
@settings(max_examples=30)
def test_yaml_is_what_other_readers_take_it_for(value):
    from ruamel.yaml import YAML

    assert YAML(typ="safe", pure=True).load(write_yaml({"a": value, "b": [value]})) == {"a": value, "b": [value]}


def test_phase_words_are_written():
    task = Task.of("Look at it")
    review = PhaseReview(Task.of("Is it good?", max_retries=4), max_retries=1, on_exhausted="keep")
    first = Phase.of("one", Task.of("Do it", name="do"), review=review, workflow="parallel")
    second = Phase.of("two", task, after=["one"], when=Condition("do", default=True), review=look)
    text = written(Ensemble(phases=[first, second]))
    for line in ("after: one", "when: {do: default}", "review: look", "max_retries: 1", "on_exhausted: keep"):
        assert line in text


def test_task_whose_name_reads_as_an_input_is_no_source_of_items_in_a_cell():
    listed = Task.of("List them", name="{x}", handler=say)
    each = Task.of("Do {item}", name="each", handler=say, for_each=listed)
    assert "reads as an input. Rename it." in refusal(Ensemble(tasks=[listed, each]))
