"""Names of the notebook: tools, handlers, listeners, models (C4)."""

import sys

import pytest

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.support.cell import Echo, assert_mistakes, mistakes_of, read


def search(text):
    return text


TOOLS = "agents: {A: {goal: g, tools: [%s]}}\ntasks: [{description: x, agent: A}]"


def test_tools_are_functions_of_the_notebook():
    assert read(TOOLS % "search", {"search": search}).definition.agents[0].tools == (search,)


def test_unknown_tool_names_the_nearest_function():
    names = {"search": search, "serch_results": [1], "_serch": search, "Serch": type("Serch", (), {})}
    assert_mistakes(TOOLS % "«serch»", r"no 'serch' in this notebook. Did you mean 'search'\?", namespace=names)


def test_unknown_tools_are_all_shown():
    assert_mistakes(TOOLS % "«one», search, «two»", "no 'one'", "no 'two'", namespace={"search": search})


def test_value_that_is_no_tool_is_shown_where_it_is_named():
    assert_mistakes(
        TOOLS % "search, «number»", r"index 1 \(int\) is no tool", namespace={"search": search, "number": 1}
    )


def test_tools_of_agent_and_task_must_differ():
    text = "agents: {A: {goal: g, tools: [search]}}\ntasks: [{description: x, agent: A, tools: «[search]»}]"
    assert_mistakes(text, "stands twice", namespace={"search": search})


def test_handler_excludes_an_agent():
    text = "agents: {A: {goal: g}}\ntasks: [{description: x, agent: «A», handler: search}]"
    assert_mistakes(text, "a handler or agent, not both", namespace={"search": search})


def test_name_with_arguments_is_no_name():
    assert_mistakes(TOOLS % "«search(1)»", "can't be the name of a tool", namespace={"search": search})


def test_model_may_be_a_variable():
    model = Echo()
    cell = read("llm: mine\ntasks: [a]", {"mine": model})
    assert cell.graph.tasks[0].llm is model


def test_built_in_models_win_over_variables():
    assert read("llm: local\ntasks: [a]", {"local": Echo()}).graph.tasks[0].llm == "local"


def test_model_may_be_a_mapping_for_a_compatible_server():
    cell = read('llm: {model: qwen, base_url: "http://localhost:1/v1", api_key_env: MY_KEY}\ntasks: [a]')
    assert cell.definition.llm == {"model": "qwen", "base_url": "http://localhost:1/v1", "api_key_env": "MY_KEY"}
    assert cell.plan.tasks[0].llm == "qwen"


def test_mapping_of_a_model_is_checked_in_place():
    assert_mistakes('llm: {model: x, «base_ulr»: "http://h/v1"}\ntasks: [a]', r"Did you mean 'base_url'\?")
    assert_mistakes("llm: {model: x, base_url: «nonsense»}\ntasks: [a]", "no address")
    assert_mistakes('llm: «{base_url: "http://h/v1"}»\ntasks: [a]', "needs the key 'model'")


@pytest.mark.parametrize("spec", ["local", "scripted", "openai:gpt-4o-mini", "openai:qwen@http://localhost:1/v1"])
def test_spec_texts_are_models(spec):
    assert read(f"llm: {spec}\ntasks: [a]").graph.tasks[0].llm == spec


def test_wrong_spec_is_shown_with_the_nearest_one():
    assert_mistakes("llm: «opnai:gpt-4o»\ntasks: [a]", r"Did you mean 'openai:gpt-4o'\?")
    assert_mistakes("llm: «locl»\ntasks: [a]", r"there is no model 'locl'. Did you mean 'local'\?")


def test_model_that_is_a_plain_value_says_what_it_is():
    assert_mistakes(
        "llm: «numbers»\ntasks: [a]", "holds no chat model but a value of type list", namespace={"numbers": [1]}
    )
    assert_mistakes("llm: «Echo»\ntasks: [a]", "the class Echo", namespace={"Echo": Echo})


def test_models_of_agents_and_tasks_are_resolved_too():
    text = "agents: {A: {goal: g, llm: «mine»}}\ntasks: [{description: x, agent: A, llm: «yours»}]"
    assert_mistakes(text, "no model 'mine'", "no model 'yours'")


def test_model_spelled_for_another_tool_is_reported():
    cell = read("llm: openai/gpt-4o\ntasks: [a]")
    assert cell.definition.llm == "openai:gpt-4o"
    assert [notice.message for notice in cell.notices] == ["'openai/gpt-4o' is read as 'openai:gpt-4o'."]


@pytest.mark.parametrize(
    "where",
    [
        "agents: {A: {goal: g, tools: [search]}}\ntasks: [{description: x, agent: A}]",
        "tasks: [{description: x, tools: [search]}]",
    ],
)
def test_tools_for_the_local_model_are_a_warning(where):
    (notice,) = read(where, {"search": search}).notices
    assert notice.is_warning
    assert "does not call tools" in notice.message


def test_tools_for_another_model_are_no_warning():
    assert read("llm: openai:x\ntasks: [{description: x, tools: [search]}]", {"search": search}).notices == ()


KEY = "sk-" + "a1B2c3D4" * 4


@pytest.mark.parametrize(
    "text",
    [
        "- say «%s»",
        "tasks: [a]\nllm: openai:«%s»",
        "# my key: «%s»\n- a",
        "tasks: [a]\ninputs: {k: «%s»}",
    ],
)
def test_key_anywhere_in_a_cell_is_refused_and_never_shown(text):
    from tests.support.cell import marked, place

    plain, places = marked(text.replace("%s", KEY))
    with pytest.raises(CellError) as caught:
        read_cell(plain, {})
    assert place(caught.value.mistakes[0]) == places[0]
    assert "looks like a key" in caught.value.mistakes[0].message
    shown = "\n".join([*caught.value._render_lines(), str(caught.value), repr(caught.value.__dict__)])
    assert KEY not in shown


def test_key_in_the_options_is_refused():
    (mistake,) = mistakes_of("- say {k}", overrides={"inputs": {"k": KEY}})
    assert (mistake.line, mistake.where) == (0, "options")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that counts its imports."""
    (tmp_path / "cell_toolbox.py").write_text(
        "import sys\nsys.cell_toolbox_imports = getattr(sys, 'cell_toolbox_imports', 0) + 1\n"
        "def search(text: str) -> str:\n    return text\n"
    )
    (tmp_path / "cell_broken.py").write_text("raise RuntimeError('no luck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("cell_toolbox", "cell_broken"):
        sys.modules.pop(name, None)
    if hasattr(sys, "cell_toolbox_imports"):
        del sys.cell_toolbox_imports


def test_reading_and_planning_import_nothing(module):
    cell = read(TOOLS % "cell_toolbox.search")
    assert cell.plan.total_tasks == 1
    assert "cell_toolbox" not in sys.modules


def test_building_imports_dotted_names(module):
    from ensemble_notebook.ensemble.ensemble import Ensemble

    ensemble = read("llm: openai:x\n" + TOOLS % "cell_toolbox.search").build()
    assert isinstance(ensemble, Ensemble)
    assert ensemble.agents[0].tools == (sys.modules["cell_toolbox"].search,)
    assert ensemble.tasks[0].agent is ensemble.agents[0]


@pytest.mark.parametrize(
    "name, reason",
    [
        ("cell_toolbox.serch", "AttributeError|ModuleNotFoundError"),
        ("cell_nowhere.f", "ModuleNotFoundError"),
        ("cell_broken.f", "no luck"),
    ],
)
def test_dotted_name_that_can_not_be_imported_is_a_mistake_in_its_place(module, name, reason):
    cell = read(TOOLS % name)
    with pytest.raises(CellError, match=reason) as caught:
        cell.build()
    assert (caught.value.mistakes[0].line, caught.value.mistakes[0].column) == (1, 31)
    assert caught.value.__cause__ is not None


def test_cell_with_mistakes_imports_nothing(module):
    mistakes_of(TOOLS % "cell_toolbox.search, missing")
    assert "cell_toolbox" not in sys.modules


def test_dotted_name_may_start_at_a_variable():
    class Box:
        search = staticmethod(search)

    assert read("llm: openai:x\n" + TOOLS % "box.search", {"box": Box}).build().agents[0].tools == (search,)


def test_names_are_taken_on_trust_where_no_notebook_is_known_and_missed_when_built():
    cell = read_cell("llm: openai:x\n" + TOOLS % "search")
    with pytest.raises(CellError, match="no 'search'"):
        cell.build({})
    assert cell.build({"search": search}).agents[0].tools == (search,)
