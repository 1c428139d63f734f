#!/usr/bin/env bash
# langgraph 1.2.24 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: a fork at the checkpoint before two branches, which gives the result of one of them (`update_state` with
# `as_node`), leaves the other branch to run, and the node that joins both runs after it.
# Seen: the other branch is dropped. Nothing is next (`next == ()`, as of a graph that is done), `invoke(None)` runs no
# node, raises nothing and warns of nothing, and gives a state without the joining node's value. To give the results of
# both branches, or to fork behind both, runs the joining node.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet langgraph==1.2.24
"$folder/env/bin/python" - <<'PY'
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

ran: list[str] = []


class State(TypedDict, total=False):
    draft: str
    opinion: str
    facts: str
    final: str


def make_node(key: str):
    def work(state: State) -> State:
        ran.append(key)
        return {key: f"{key} of {'+'.join(state)}"}

    return work


graph = StateGraph(State)
for key in ("draft", "opinion", "facts", "final"):
    graph.add_node(f"write_{key}", make_node(key))
graph.add_edge(START, "write_draft")
graph.add_edge("write_draft", "write_opinion")
graph.add_edge("write_draft", "write_facts")
graph.add_edge(["write_opinion", "write_facts"], "write_final")
app = graph.compile(checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}

app.invoke({}, thread)
print("first run:", ran)
assert sorted(ran) == ["draft", "facts", "final", "opinion"]
before_both = next(each for each in app.get_state_history(thread) if len(each.next) == 2)

ran.clear()
one_given = app.update_state(before_both.config, {"opinion": "harsh"}, as_node="write_opinion")
print("next after one branch is given:", app.get_state(one_given).next)
state = app.invoke(None, one_given)
print("ran:", ran, "- state:", sorted(state))
assert app.get_state(one_given).next == () and ran == [] and "final" not in state and "facts" not in state

both_given = app.update_state(before_both.config, {"opinion": "harsh"}, as_node="write_opinion")
both_given = app.update_state(both_given, {"facts": "few"}, as_node="write_facts")
print("next after both are given:", app.get_state(both_given).next)
state = app.invoke(None, both_given)
print("ran:", ran, "- state:", sorted(state))
assert ran == ["final"] and "final" in state
PY
