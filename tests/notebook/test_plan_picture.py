"""The picture of a plan (W32): a graph that any page shows, and that loses no word where styles are taken away."""

import re

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.notebook.picture.static_picture import make_plan_bundle
from tests.support.event_builder import EventBuilder

PLANNED = """
llm: openai:gpt-4o-mini
agents:
  Clerk: {goal: Sort mail, tools: [look_up]}
tasks:
  triage: {description: Sort the mail, agent: Clerk}
  refund: {description: Pay back, when: {triage: {contains: <b>refund</b>}}}
  sum: {description: Sum up, context: [refund]}
"""


def look_up(name: str) -> str:
    """Look a name up."""
    return name


def plan_with_tools():
    return read_cell(PLANNED, {"look_up": look_up}).build({"look_up": look_up}).plan()


def test_w32_a_plan_is_a_graph_with_agents_models_tools_and_conditions():
    page = make_plan_bundle(plan_with_tools())["text/html"]
    for said in (
        "triage",
        "Clerk",
        "gpt-4o-mini",
        "look_up",
        "if contains &#x27;&lt;b&gt;refund&lt;/b&gt;&#x27;",
    ):
        assert said in page
    assert "<b>refund" not in page
    assert page.index("as a table") > page.index("look_up")
    places = re.findall(r"left:(\d+)px;top:(\d+)px;width:200px", page)
    assert len(set(places)) == 3


def test_w32_a_plan_says_what_each_task_is_likely_to_cost(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    plan = plan_with_tools()
    assert plan.preview.estimate.cost is not None
    page = make_plan_bundle(plan)["text/html"]
    assert page.count("≈ $") == 3
    assert "likely cost: about " in page


def test_w32_without_styles_the_words_of_a_plan_are_left_in_order():
    page = make_plan_bundle(plan_with_tools())["text/html"]
    left = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    words = [word for word in re.sub(r"<[^>]+>", "\n", left).splitlines() if word.strip()]
    names = [words.index(name) for name in ("triage", "refund", "sum")]
    assert names == sorted(names)
    assert "text" not in re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0]


def test_w32_a_plan_of_very_many_tasks_is_drawn_as_groups():
    page = make_plan_bundle(EventBuilder({f"t{k}": [f"t{k - 1}"] if k else () for k in range(400)}).events[1].plan)
    assert "400 nodes, shown as 100 groups: more than a picture holds" in page["text/html"]


def test_w32_no_run_has_what_a_plan_says_besides(shell):
    shell.run("from ensemble_notebook import ScriptedChatModel\nmodel = ScriptedChatModel(default='A draft.')")
    shell.run("%%ensemble -o report\nllm: model\ntasks: {draft: Write}")
    assert shell.names["report"].trace.plan.preview is None
    told = shell.run("%%ensemble --dry-run -o plan\nllm: model\ntasks: {draft: Write}")
    assert shell.names["plan"].preview.tools == {}
    assert told is not None


def test_w32_a_box_has_its_settings_beside_its_name_and_a_manager_the_names_of_its_workers():
    team = """
workflow: hierarchical
llm: scripted
agents:
  Analyst: {goal: Find facts}
  Accountant: {goal: Count}
tasks:
  - Analyse the figures
  - Count it all up
"""
    page = make_plan_bundle(read_cell(team, {}).build({}).plan())["text/html"]
    plain = re.sub(r"<[^>]+>", "", page[: page.index("as a table")])
    assert "manager workers Analyst, Accountant" in plain
    assert plain.index("Manager") < plain.index("Analyse the figures") < plain.index("Count it all up")
