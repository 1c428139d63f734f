"""Nothing is accepted silently (C11a): what is changed in a cell changes what it means, or is a mistake in its line."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.cell_reader import Cell, read_cell
from ensemble_notebook.cell.reading.mistakes import CellError, MistakeReport
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.domain.definitions.definition import Definition, get_field_names
from tests.support.cell import Echo

GRAPH = """\
llm: mine
name: MistakeReport
error_strategy: continue_on_error
max_concurrency: 3
verbose: true
agents:
  Researcher:
    goal: Find facts that can be checked
    tools: [search, lookup]
    verbose: true
  Writer:
    role: Author
    goal: >
      Turn facts into
      clear prose
    background: Ten years of it
    max_iterations: 5
    max_retries: 1
    llm_timeout: null
tasks:
  gather: {description: "Gather facts about {topic}", agent: Researcher}
  risks: {description: 'List risks of {topic}', agent: Researcher, timeout: 5}
  brief:
    description: |
      Write a brief
      in {tone} words
    expected_output: Three headings
    agent: Writer
    context: [gather, risks]
  count:
    description: Count the words
    handler: lookup
    context:
      - brief
inputs:
  topic: tides
  tone: plain
listeners: [hear]
cost:
  input_rate: 0.1
  output_rate: 1e-6
"""
PHASES = """\
workflow: sequential
phases:
  steak:
    - Season it
    - name: grill
      description: Grill it
  salmon: {cure: Cure it, slice: {description: Slice it, context: [cure]}}
  serve:
    after: [steak, salmon]
    workflow: parallel
    tasks:
      plate: {description: Plate it, context: [grill, salmon.slice]}
"""
CHAIN = """\
- Research the tides
- description: Summarise it
  expected_output: Three lines
- name: poem
  description: Write a haiku
  context: []
"""
MANAGED = """\
llm: mine
workflow: hierarchical
manager:
  llm: mine
  max_iterations: 7
  prompt: strategy
constraints:
  required_workers: [Researcher]
  allowed_workers: [Researcher, Writer]
  max_calls_per_worker: {Researcher: 3, Writer: 2}
  global_max_delegations: 5
  required_stages: [[Researcher], [Writer]]
policies: [allow]
max_delegation_depth: 2
capture_mode: full
trace_exporter: traces/
rate_limit: 60/min
budget: $0.50, 20k tokens
memory: notes.db
review: {policy: after_last_task, handler: approve}
agents:
  Researcher:
    goal: Find facts
    allow_delegation: true
    rate_limit: {requests: 2, period: 1.5, wait_timeout: 9}
  Writer: {goal: Write}
tasks:
  - Find facts
  - Write them down
"""
GUARDED = """\
error_strategy: partial
review_policy: after_every_task
review_handler: approve
memory: true
budget:
  max_cost: 0.50
  max_tokens: 20000
  max_llm_calls: 9
  warn_at: 0.5
  allow_unknown_cost: true
agents:
  Reader: {goal: Read it}
  Clerk: {goal: Keep order}
tasks:
  triage:
    description: Read it
    agent: Reader
    output_type: {urgency: str, score: int?, tags: [str]}
    max_output_retries: 1
    input_guardrails: [check, approve]
    output_guardrails: check
    memory: [letters, people]
    rate_limit: 2 per second
  answer:
    description: Answer it
    agent: Clerk
    when: {triage: {contains: urgent}}
    fallback: Reader
    review: {timing: before, timeout: 5, on_timeout: fail}
  file:
    description: File it
    when:
      - {triage: default}
      - triage: {matches: "^low"}
    fallback: {role: Archivist, goal: Lose nothing}
    review: [during, after]
    memory: letters
  note:
    description: Note it
    when: {triage: [low, {equals: none}, {predicate: check}]}
    output_type: {type: object, properties: {line: {type: string}}, required: [line]}
    review: true
"""
REVIEWED = """\
phases:
  draft: {tasks: {write: Write it, check: Look at it}, review: check}
  edit:
    after: [draft]
    when: {write: {contains: rough}}
    tasks: [Edit it]
    review: {by: approve, max_retries: 1}
  print:
    after: [edit]
    tasks: [Print it]
    review: {description: Is it clean, expected_output: APPROVE or RETRY}
"""


def search(text: str) -> str:
    return text


def lookup(text: str) -> str:
    return text


def hear(event: object) -> None:
    return None


def allow(request: object, context: object) -> None:
    return None


def approve(given: object) -> None:
    return None


def check(given: object) -> None:
    return None


class Strategy:
    def system(self, workers: object) -> str:
        return ""

    def user(self, tasks: object) -> str:
        return ""


FUNCTIONS = (search, lookup, hear, allow, approve, check)
NAMESPACE = {**{each.__name__: each for each in FUNCTIONS}, "mine": Echo(), "strategy": Strategy()}
CELLS = {
    "graph": GRAPH,
    "phases": PHASES,
    "chain": CHAIN,
    "managed": MANAGED,
    "guarded": GUARDED,
    "reviewed": REVIEWED,
}


def told(value: Any) -> Any:
    """A value with everything in it, comparable."""
    if isinstance(value, Definition):
        return type(value).__name__, tuple(told(getattr(value, name)) for name in get_field_names(type(value)))
    if isinstance(value, Mapping):
        return tuple(sorted((key, told(each)) for key, each in value.items()))
    if isinstance(value, tuple | list):
        return tuple(map(told, value))
    return repr(value)


def meaning(cell: Cell) -> tuple[Any, ...]:
    """Everything that a cell says, comparable."""
    nodes = tuple((node.name, node.is_chained, cell.graph.get_context_names(node)) for node in cell.graph.tasks)
    return told(cell.definition), nodes, tuple(sorted(cell.inputs.items()))


# Written in either case, these are the same: YAML 1.2's own words, and the names of choices and units.
CASELESS = re.compile(
    r"true|false|null|continue_on_error|fail_fast|partial|parallel|sequential|hierarchical|full|after_every_task|after_last_task|"
    r"before|during|after|fail|60/min|2 per second|\$0\.50, 20k tokens",
    re.IGNORECASE,
)
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


def shape(text: str) -> Any:
    """What YAML makes of a text, but for the case of what has none, and the many spellings of a number."""

    def of(node: Node | None) -> Any:
        if isinstance(node, ListNode):
            return [of(each) for each in node.items]
        if isinstance(node, MappingNode):
            return [(key.text, of(value)) for key, value in node.pairs]
        if not isinstance(node, ScalarNode):
            return node
        text = node.text.rstrip()
        if node.is_plain and NUMBER.fullmatch(text):
            return float(text)
        return text.lower() if CASELESS.fullmatch(text) else text, node.is_plain or node.is_block

    return of(read_tree(MistakeReport(SourceText(text))))


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def with_line(text: str, number: int, *replacement: str) -> str:
    lines = lines_of(text)
    return "\n".join([*lines[:number], *replacement, *lines[number + 1 :]]) + "\n"


def keys_of_language() -> list[tuple[str, int, int, str]]:
    """Every key of the language in the cells: cell, line, column, key."""
    pattern = re.compile(r"(?:(?<=^)|(?<=[ {]))(\w+)(?=:( |$))")
    return [
        (name, number, match.start(), match[1])
        for name, text in CELLS.items()
        for number, line in enumerate(lines_of(text))
        for match in pattern.finditer(line)
        if any(match[1] in schema.known for schema in vocabulary.SCHEMAS)
    ]


def broken_lines(text: str) -> set[int]:
    with pytest.raises(CellError) as caught:
        read_cell(text, NAMESPACE)
    return {mistake.line for mistake in caught.value.mistakes}


@pytest.mark.parametrize("name, number, column, key", keys_of_language())
def test_misspelt_key_is_a_mistake_in_its_place(name, number, column, key):
    line = lines_of(CELLS[name])[number]
    misspelt = key[0] + key[2:]
    text = with_line(CELLS[name], number, line[:column] + misspelt + line[column + len(key) :])
    with pytest.raises(CellError) as caught:
        read_cell(text, NAMESPACE)
    assert (number + 1, column + 1) in {(each.line, each.column) for each in caught.value.mistakes}


@pytest.mark.parametrize("name, number, column, key", keys_of_language())
def test_key_without_its_value_is_a_mistake_in_its_line(name, number, column, key):
    line = lines_of(CELLS[name])[number]
    found = re.compile(r": *([^,{}\[\]|>]+|\[.*?\])(?=[,}]|$)").match(line, column + len(key))
    if found is None:  # its value is on the lines below
        text = "\n".join([*lines_of(CELLS[name])[:number], line[: column + len(key) + 1]])
    else:
        text = with_line(CELLS[name], number, line[: found.start(1)] + line[found.end() :])
    assert number + 1 in broken_lines(text)


@pytest.mark.parametrize(
    "name, number",
    [
        (name, number)
        for name, text in CELLS.items()
        for number, line in enumerate(lines_of(text))
        if re.search(r"\w+:", line)
    ],
)
def test_line_with_a_key_that_stands_twice_is_a_mistake_in_one_of_them(name, number):
    line = lines_of(CELLS[name])[number]
    text = with_line(CELLS[name], number, line, line)
    if line.lstrip().startswith("- "):  # a list item twice is two items
        assert shape(text) != shape(CELLS[name])
    else:
        assert broken_lines(text) & {number + 1, number + 2}


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, str]:
    """A cell and what became of it after one line or word was deleted, doubled, misspelt or moved."""
    text = draw(st.sampled_from(sorted(CELLS.values())))
    lines = lines_of(text)
    number = draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    words = list(re.finditer(r"\w+|[^\s\w]", line))
    change = draw(st.sampled_from(["delete", "double", "indent", "word"]))
    if change == "word" and words:
        match = draw(st.sampled_from(words))
        word = match[0]
        changed = draw(st.sampled_from(["", word + word, word[1:], word[::-1], word + "x", word.swapcase()]))
        return text, with_line(text, number, line[: match.start()] + changed + line[match.end() :])
    if change == "delete":
        return text, with_line(text, number)
    if change == "double":
        return text, with_line(text, number, line, line)
    return text, with_line(text, number, " " * draw(st.integers(0, 8)) + line.lstrip())


@given(mutations())
def test_changed_cell_means_something_else_or_is_a_mistake(mutation):
    text, changed = mutation
    try:
        cell = read_cell(changed, NAMESPACE)
    except CellError:
        return
    if shape(changed) != shape(text):
        assert meaning(cell) != meaning(read_cell(text, NAMESPACE)), changed


def test_cells_are_right_before_they_are_changed():
    for text in CELLS.values():
        assert read_cell(text, NAMESPACE).notices == ()
