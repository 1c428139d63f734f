"""The graph of a run (W32): the plan's, filled with spans, and what is found only while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from ensemble_notebook import Agent, CaptureMode, Ensemble, ExecutionTrace, Reply, ScriptedChatModel, Task, ToolUse
from ensemble_notebook.domain.events import NestedRunStarted
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.planning.shown_graph import (
    MOST_NODES,
    ShownGraph,
    ShownNode,
    add_plan,
    fold_many,
    name_model,
)
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.run_graph import RunGraph, make_run_graph, make_run_graphs
from ensemble_notebook.trace.timeline.timeline_messages import SAVED_BYTES, TimelineMessages
from tests.browser.scenes import run_hier, run_report
from tests.support.event_builder import EventBuilder
from tests.support.row_reader import read_rows
from tests.support.stream import streams

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"


def make_plan_graph(plan: ExecutionPlan) -> ShownGraph:
    graph = ShownGraph()
    add_plan(graph, plan)
    return fold_many(graph)


def list_edges(graph: ShownGraph) -> dict[tuple[str, str], str]:
    return {(edge.source, edge.target): edge.kind for edge in graph.edges.values()}


def list_members(made: RunGraph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in made.members:
        found.setdefault(each.key, []).append(each.span_id)
    return found


def read_graph(packed: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {name: read_rows(packed[name]) for name in ("nodes", "edges", "members")}


def test_w32_a_run_fills_the_graph_of_its_plan_in_the_same_places() -> None:
    trace = run_report()
    assert trace.plan is not None
    planned, made = make_plan_graph(trace.plan), make_run_graphs(trace._fold)["aggregated"]
    assert [*planned.nodes] == [*made.graph.nodes][: len(planned.nodes)]
    assert [*made.graph.nodes][len(planned.nodes) :] == ["task:risks/worker:Researcher"]
    members = list_members(made)
    tasks = [span for span in trace.spans if span.is_planned]
    assert [members[f"task:{span.name}"] for span in tasks] == [[span.span_id] for span in tasks]
    assert len(members["phase:writing/review"]) == 6
    before = planned.lay_out()
    after = made.graph.lay_out(before.inner)
    places = zip(planned.nodes, before.places, after.places, strict=False)
    moved = [key for key, one, other in places if one != other and key != "phase:research"]
    # The room for the worker pushes what stands at the right of its phase, and nothing else.
    assert {key.partition(":")[2] for key in moved} <= {
        "risks",
        "draft",
        "check",
        "title",
        "sign_off",
        "writing/review",
    }


def test_w32_rounds_are_a_loop_or_boxes_one_after_the_other() -> None:
    graphs = make_run_graphs(run_report()._fold)
    assert list_edges(graphs["aggregated"].graph)["phase:writing", "phase:writing"] == "loop"
    expanded = graphs["expanded"]
    rounds = [f"phase:writing/round:{number}" for number in (1, 2, 3)]
    assert [expanded.graph.nodes[key].title for key in rounds] == ["round 1", "round 2", "round 3"]
    edge = expanded.graph.edges[rounds[0], rounds[1]]
    assert (edge.kind, edge.words) == ("round", 'sent back: "shorter, and name the vendor"')
    assert {expanded.graph.nodes[key].parent for key in ("task:check@2", "phase:writing/review@2")} == {rounds[1]}
    assert list_edges(expanded.graph)["task:draft@3", "task:check@3"] == "context"
    goes = {each.key: each.go for each in expanded.members if each.key.startswith("task:draft")}
    assert goes == {"task:draft": 1, "task:draft@2": 2, "task:draft@3": 3}


def test_w32_a_task_that_is_sent_back_has_drafts() -> None:
    build = EventBuilder({"write": ()})
    with build.task("write"):
        build.wait(1)
        build.again("shorter")
        build.wait(1)
    graphs = make_run_graphs(TraceFold.from_events(build.finish()))
    assert list_edges(graphs["aggregated"].graph) == {("task:write", "task:write"): "loop"}
    edges = graphs["expanded"].graph.edges
    assert [(edge.target, edge.words) for edge in edges.values()] == [("task:write/draft:2", 'sent back: "shorter"')]


def test_w32_work_of_a_manager_is_that_of_the_written_tasks_where_the_text_tells() -> None:
    graphs = make_run_graphs(run_hier()._fold)
    assert [*graphs] == ["aggregated"]
    graph, members = graphs["aggregated"].graph, list_members(graphs["aggregated"])
    written = [key for key in graph.nodes if "written" in key]
    assert [key in members for key in written] == [True, False]
    assert graph.nodes["task:manager/worker:Poet"].parent == "task:manager"
    assert set(list_edges(graph).values()) == {"delegation"}


def make_managed_team(**more: Any) -> Ensemble:
    """A manager with two workers, who hands on both tasks in their own words."""
    asked = [
        Reply(calls=[ToolUse("delegate_task", {"agent_role": role, "task_description": text})])
        for role, text in (("Analyst", "Analyse the figures"), ("Accountant", "Count it all up"))
    ]
    model = ScriptedChatModel.match({"You are Manager": [*asked, Reply("All done.")] * 3}, default="Fine words.")
    return Ensemble(
        workflow="hierarchical",
        manager_llm=model,
        llm=model,
        agents=[Agent(role="Analyst", goal="Find facts"), Agent(role="Accountant", goal="Count")],
        tasks=[Task.of("Analyse the figures"), Task.of("Count it all up")],
        **more,
    )


TEAM_NODES = [
    ("task:manager", "manager", "Manager", "workers Analyst, Accountant"),
    ("task:manager/written:analyst_1", "Analyse the figures", "", ""),
    ("task:manager/written:calculator_2", "Count it all up", "", ""),
]


def list_nodes(graph: ShownGraph, scope: str = "") -> list[tuple[str, str, str, str]]:
    return [
        (key.removeprefix(scope), node.title, node.agent, node.settings)
        for key, node in graph.nodes.items()
        if key.startswith(scope)
    ]


def test_w32_a_manager_inside_a_task_has_its_workers_and_tasks_in_plan_and_run() -> None:
    team = make_managed_team()
    assert list_nodes(make_plan_graph(team.plan())) == TEAM_NODES
    outer = Ensemble(tasks=[Task(name="team", ensemble=team)])
    assert list_nodes(make_plan_graph(outer.plan()), "task:team/") == TEAM_NODES
    graphs = make_run_graphs(outer.run().trace._fold)["aggregated"]
    assert list_nodes(graphs.graph, "task:team/") == TEAM_NODES
    members = list_members(graphs)
    assert [len(members[f"task:team/{key}"]) for key, *_ in TEAM_NODES] == [1, 1, 1]


def test_w32_a_manager_of_each_row_or_item_or_of_a_run_further_inside_is_that_of_its_plan() -> None:
    rows = make_run_graphs(make_managed_team().map([{}, {}], concurrency=1).trace._fold)["aggregated"]
    assert list_nodes(rows.graph, "rows/") == TEAM_NODES
    assert len(list_members(rows)["rows/task:manager/written:calculator_2"]) == 2
    inner = Ensemble(tasks=[Task(name="team", ensemble=make_managed_team())])
    deep = Ensemble(tasks=[Task(name="deep", ensemble=inner, for_each=["a", "b"])], max_concurrency=1)
    made = make_run_graphs(deep.run().trace._fold)["aggregated"]
    assert list_nodes(made.graph, "task:deep/task:team/") == TEAM_NODES
    assert len(list_members(made)["task:deep/task:team/task:manager/written:analyst_1"]) == 2


def test_w32_a_task_that_nobody_named_is_called_by_its_text_in_a_plan() -> None:
    plan = Ensemble(tasks=[Task.of("Analyse the figures"), Task.of("Count", name="count")], llm="scripted").plan()
    assert [node.title for node in make_plan_graph(plan).nodes.values()] == ["Analyse the figures", "count"]


def test_w32_edges_tell_what_is_handed_over_and_which_condition_is_tested() -> None:
    ensemble = Ensemble(
        tasks=[
            Task.of("Sort the mail", name="triage"),
            Task.of("Pay back", name="refund", when={"triage": {"contains": "refund"}}),
            Task.of("List vendors", name="list"),
            Task.of("Describe {item}", name="each", for_each="list"),
            Task.of("Sum up", name="sum", context=("refund", "each")),
        ],
        llm=ScriptedChatModel(default="Fine."),
    )
    graph = make_plan_graph(ensemble.plan())
    assert list_edges(graph) == {
        ("task:triage", "task:refund"): "condition",
        ("task:refund", "task:list"): "order",
        ("task:list", "task:each"): "items",
        ("task:refund", "task:sum"): "context",
        ("task:each", "task:sum"): "context",
    }
    assert graph.edges["task:triage", "task:refund"].words == "contains 'refund'"
    assert graph.nodes["task:each"].is_many


@pytest.mark.parametrize("mode", CaptureMode)
def test_w32_items_and_nested_runs_are_nodes_inside_their_task(mode: CaptureMode) -> None:
    inner = Ensemble(tasks=[Task.of("Find {word}", name="find", handler=lambda _: "found")], name="inner")
    ensemble = Ensemble(
        tasks=[
            Task(name="each", description="Look at {item}", for_each=["a", "b", "c"], handler=lambda _: "seen"),
            Task(name="outer", ensemble=inner, inputs={"word": "a"}),
        ]
    )
    fold = ensemble.run(capture_mode=mode).trace._fold
    graphs = make_run_graphs(fold)
    assert [*graphs["aggregated"].graph.nodes] == ["task:each", "task:outer", "task:outer/task:find"]
    assert list_members(graphs["aggregated"])["task:outer/task:find"]
    items = [node for node in graphs["expanded"].graph.nodes.values() if node.parent == "task:each"]
    assert len(items) == 3


def test_w32_a_map_is_one_box_with_the_tasks_of_its_rows_or_each_row() -> None:
    ensemble = Ensemble(
        tasks=[
            Task.of("Find {topic}", name="find", handler=lambda _: "found"),
            Task.of("Tell {topic}", name="tell", handler=lambda _: "told", context=("find",)),
        ]
    )
    result = ensemble.map([{"topic": word} for word in ("a", "b", "c")])
    graphs = make_run_graphs(result.trace._fold)
    graph = graphs["aggregated"].graph
    assert [(node.key, node.title, node.count) for node in graph.nodes.values()] == [
        ("rows", "rows", 3),
        ("rows/task:find", "find", 3),
        ("rows/task:tell", "tell", 3),
    ]
    assert list_edges(graph) == {("rows/task:find", "rows/task:tell"): "context"}
    assert len(graphs["expanded"].graph.nodes) == 9


def test_w32_each_row_of_many_is_not_looked_at_for_a_graph_that_nobody_sees() -> None:
    result = Ensemble(tasks=[Task.of("Find {topic}", name="find", handler=lambda _: "found")]).map(
        [{"topic": str(number)} for number in range(MOST_NODES)]
    )
    assert len(make_run_graph(result.trace._fold, "expanded").graph.nodes) <= MOST_NODES + 2
    assert [*make_run_graphs(result.trace._fold)] == ["aggregated"]


def test_w32_a_run_inside_a_function_is_found_by_its_spans() -> None:
    inner = Ensemble(tasks=[Task.of("Find", name="find", handler=lambda _: "found")])

    def work(_: object) -> str:
        return inner.run().raw

    output = Ensemble(tasks=[Task.of("Work", name="work", handler=work)]).run()
    assert any(isinstance(event, NestedRunStarted) for event in output.events)
    assert [*make_run_graphs(output.trace._fold)["aggregated"].graph.nodes] == ["task:work", "task:work/task:find"]


def test_w32_positions_travel_as_columns_and_a_saved_view_has_them() -> None:
    trace = run_report()
    messages = TimelineMessages(trace._fold)
    sent = json.loads(json.dumps(messages.make_graph(), allow_nan=False))
    assert (sent["kind"], sent["n"]) == ("graph", trace._fold.count)
    saved = messages.make_saved_view()
    assert saved["graphs"] == sent["graphs"]
    for mode, made in make_run_graphs(trace._fold).items():
        read = read_graph(sent["graphs"][mode])
        assert [node["key"] for node in read["nodes"]] == [*made.graph.nodes]
        assert [node["title"] for node in read["nodes"]] == [node.title for node in made.graph.nodes.values()]
        assert [edge["kind"] for edge in read["edges"]] == [edge.kind for edge in made.graph.edges.values()]
        keys = [read["nodes"][each["node"]]["key"] for each in read["members"]]
        assert [*zip(keys, [each["span_id"] for each in read["members"]], strict=True)] == [
            (each.key, each.span_id) for each in made.members
        ]
        assert all(len(edge["way"]) % 2 == 0 and len(edge["way"]) >= 4 for edge in read["edges"])


class Heard:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, content: dict[str, Any], _buffers: Any = None) -> None:
        self.messages.append(content)


def test_w32_a_feed_answers_a_view_that_asks_for_the_graph() -> None:
    feed, heard = RunFeed(TimelineMessages(run_report()._fold)), Heard()
    feed.subscribe(heard)
    feed.receive(heard, {"kind": "graph"})
    assert [message["kind"] for message in heard.messages] == ["graph"]
    assert set(heard.messages[0]["graphs"]) == {"aggregated", "expanded"}


def test_w32_what_a_live_run_adds_moves_nothing_else() -> None:
    build = EventBuilder({"lead": (), "note": (), "sum": ["lead", "note"]}, agents={"lead": "Lead"})
    fold = TraceFold.from_events(build.events)
    messages, told = TimelineMessages(fold), len(build.events)
    first = read_graph(messages.make_graph()["graphs"]["aggregated"])["nodes"]
    with build.task("lead"), build.turn(), build.delegate("Helper", "Look it up"):
        for event in build.events[told:]:
            fold.add(event)
        grown = read_graph(messages.make_graph()["graphs"]["aggregated"])["nodes"]
    assert [node["title"] for node in grown][3:] == ["Look it up"]
    assert [(node["x"], node["y"]) for node in grown[::2][:2]] == [(node["x"], node["y"]) for node in first[::2]]
    assert grown[1]["y"] > first[1]["y"]


@pytest.mark.parametrize("path", sorted(OLD.glob("*.trace.json")), ids=lambda path: path.stem)
def test_w32_traces_of_earlier_versions_have_a_graph(path: Path) -> None:
    fold = ExecutionTrace.load(path)._fold
    made = make_run_graphs(fold)["aggregated"]
    tasks = {span.span_id for span in fold.spans.values() if span.kind == "task"}
    assert {each.span_id for each in made.members if each.span_id in tasks} or not tasks
    made.graph.lay_out()


@given(streams())
def test_w32_whatever_a_run_does_it_has_a_graph_that_can_be_read(events: Any) -> None:
    fold = TraceFold.from_events(events)
    sent = json.loads(json.dumps(TimelineMessages(fold).make_graph(), allow_nan=False))
    for packed in sent["graphs"].values():
        read = read_graph(packed)
        for number, node in enumerate(read["nodes"]):
            assert node.get("parent", -1) < number
        assert all(each["node"] < len(read["nodes"]) for each in read["members"])
        assert all(each["span_id"] in fold.spans for each in read["members"])


def make_tasks(count: int, reads: int = 2) -> dict[str, list[str]]:
    return {
        f"t{number}": [f"t{number - back}" for back in range(1, reads + 1) if number >= back * 7]
        for number in range(count)
    }


def test_w32_one_task_is_one_node() -> None:
    assert [*make_plan_graph(EventBuilder({"only": ()}).events[1].plan).nodes] == ["task:only"]


@pytest.mark.parametrize("shape", ["side by side", "a chain", "phases", "layers"])
def test_w32_three_thousand_tasks_are_shown_as_groups_and_that_is_said(shape: str) -> None:
    count = 3000
    if shape == "phases":
        tasks = {f"t{number}": () for number in range(count)}
        phases = {
            f"p{number}": [f"t{each}" for each in range(number * 100, number * 100 + 100)] for number in range(30)
        }
        build = EventBuilder(tasks, phases=phases)
    else:
        reads = {
            "side by side": lambda number: (),
            "a chain": lambda number: [f"t{number - 1}"] if number else (),
            "layers": lambda number: [f"t{number - 100}"] if number >= 100 else (),
        }[shape]
        roles = {f"t{number}": "Writer" if number % 2 else "Editor" for number in range(count)}
        build = EventBuilder({f"t{number}": reads(number) for number in range(count)}, agents=roles)
    messages = TimelineMessages(TraceFold.from_events(build.events))
    packed = messages.make_graph()["graphs"]["aggregated"]
    read = read_graph(packed)
    assert len(read["nodes"]) <= MOST_NODES
    assert packed["note"].endswith("groups") or packed["note"].endswith("group")
    assert len(read["members"]) == count + (30 if shape == "phases" else 0)
    assert all(edge["source"] != edge["target"] for edge in read["edges"])
    assert len(json.dumps(messages.make_saved_view())) <= SAVED_BYTES


def test_w32_a_graph_of_three_hundred_tasks_is_kept_with_a_saved_view() -> None:
    build = EventBuilder({f"task_{k}": [f"task_{k - back}" for back in (9, 17) if k >= back] for k in range(300)})
    saved = TimelineMessages(TraceFold.from_events(build.events)).make_saved_view()
    assert "graphs" in saved
    assert len(json.dumps(saved)) <= SAVED_BYTES


def test_w32_groups_keep_the_edges_between_them() -> None:
    build = EventBuilder({f"t{k}": [f"t{k - 1}"] if k else () for k in range(700)})
    members: dict[str, str] = {}
    whole = ShownGraph()

    add_plan(whole, build.events[1].plan)
    folded = fold_many(whole, members)
    assert {
        (members[source], members[target]) for source, target in whole.edges if members[source] != members[target]
    } == set(folded.edges)


@pytest.mark.parametrize(
    "described, name",
    [
        ("openai:gpt-4o", "gpt-4o"),
        ("openai:gpt-4o@http://localhost:1234/v1", "gpt-4o"),
        ("openai:@cf/meta/llama-3.1-8b-instruct@https://host/v1", "@cf/meta/llama-3.1-8b-instruct"),
        ("anthropic:claude-sonnet-4", "claude-sonnet-4"),
        ("ollama:llama3.2:1b", "llama3.2:1b"),
        ("llama3.2:1b (ChatOllama)", "llama3.2:1b"),
        ("local:/models/small.gguf", "small.gguf"),
        ("local", "local"),
        ("FakeChatModel", "FakeChatModel"),
        ("", ""),
    ],
)
def test_a_node_has_the_name_of_its_model_alone_w146(described: str, name: str) -> None:
    assert name_model(described) == name


@pytest.mark.parametrize("title", ["go", "the research that everything else rests on", "w" * 200])
def test_a_box_is_as_wide_as_its_name_w145(title: str) -> None:
    graph = ShownGraph()
    graph.add_node(ShownNode(key="p", parent=None, kind="phase", title=title))
    graph.add_node(ShownNode(key="t", parent="p", kind="task", title="t"))
    assert graph.lay_out().places[0].width >= 8 * min(len(title), 60)


def test_a_manager_and_its_answers_stand_on_the_edges_w149() -> None:
    graph = make_run_graph(run_hier()._fold, "aggregated").graph
    said = {edge.target.rpartition(":")[2]: (edge.words, edge.answer) for edge in graph.edges.values()}
    assert said["Poet"][0] == "Make a poem of them"
    assert ("Find three facts about tides", "High, low, and the moon.") in said.values()
    plan = ShownGraph()
    add_plan(plan, run_hier()._fold.plan)
    places = dict(zip(graph.nodes, graph.lay_out(plan.lay_out().inner).places, strict=True))
    written = [key for key in plan.nodes if "written" in key]
    planned = dict(zip(plan.nodes, plan.lay_out().places, strict=True))
    assert [places[key] for key in written] == [planned[key] for key in written]
    assert all(places[key].x - places["task:manager"].x >= 160 for key in written)


def test_nothing_is_said_of_what_a_manager_asked_where_no_texts_are_kept_w149() -> None:
    output = make_managed_team(capture_mode=CaptureMode.METADATA).run()
    graph = make_run_graph(output.trace._fold, "aggregated").graph
    assert {(edge.words, edge.answer) for edge in graph.edges.values() if edge.kind == "delegation"} == {("", "")}
