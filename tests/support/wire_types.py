"""TypeScript's side of what Python tells the timeline, made from Python's tables (T27, T28).

``make wire-types`` writes the files, which are committed, since the bundle is built from them; a test holds them to the
tables.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain import wording
from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.trace.spans import timeline_wording as words
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.table import NUMBERS, Table
from ensemble_notebook.trace.tables.timeline_columns import (
    ACTIVE,
    BUDGET,
    DELEGATION,
    FAILURE,
    GRAPH_EDGES,
    GRAPH_MEMBERS,
    GRAPH_NODES,
    HEAD,
    KNOWN_AT_START,
    KNOWN_BEFORE,
    MANY,
    MEMORY,
    PENDING,
    PENDING_CALL,
    PHASE,
    RANGE,
    REVIEW,
    ROUND,
    ROWS,
    RUN,
    SERIES,
    STANDING,
    VERSION,
    WORK,
)

FOLDER: Final = Path(__file__).parents[2] / "js" / "src" / "wire"


def make_kinds() -> str:
    """The table of span kinds that views show."""
    shown = [kind for kind in SpanKind if kind.traits.is_shown]
    said = ({name: value for name, value in _kind(kind).items() if value} for kind in shown)
    rows = [f"  {kind.value}: {{ ...UNKNOWN, {_object(each)[2:]}," for kind, each in zip(shown, said, strict=True)]
    return _KINDS.replace("ROWS", "\n".join(rows))


_KINDS: Final = """\
// Made by `make wire-types` from ensemble_notebook/trace/spans/span_kinds.py: change the table there.
// Data alone: how a kind is drawn stands in `layout/marks` and `draw/bars`, and what its details are in
// `details/kind-details`. Each has a plain answer for a kind that it does not name, or that is not in this table.

export interface KindTraits {
  /** What a person calls one. */
  readonly title: string;
  /** What stands before its name. */
  readonly sign: string;
  /** True for what is drawn as a small bead, since it is mostly too short for a bar. */
  readonly isBead: boolean;
  /** True for what holds tokens and cost itself: all sums are made of these. */
  readonly isLeaf: boolean;
  /** True for what sums up the leaves beneath it. */
  readonly hasTotals: boolean;
  /** True for what views name when they say what goes on right now. */
  readonly isActivity: boolean;
  /** True for what does something by itself, as long as nothing runs inside it. */
  readonly isWork: boolean;
}

/** Of a kind that nobody knows: what the others say besides. */
export const UNKNOWN: KindTraits = {
  title: "", sign: "", isBead: false, isLeaf: false, hasTotals: false, isActivity: false, isWork: false,
};

const TRAITS = {
ROWS
} satisfies Record<string, KindTraits>;

export type KnownKind = keyof typeof TRAITS;

export const KIND_TRAITS: Readonly<Record<KnownKind, KindTraits>> = TRAITS;
"""


def _kind(kind: SpanKind) -> dict[str, Any]:
    traits = kind.traits
    return {
        "title": traits.title,
        "sign": traits.sign,
        "isBead": traits.is_bead,
        "isLeaf": traits.is_leaf,
        "hasTotals": traits.has_totals,
        "isActivity": traits.is_activity,
        "isWork": traits.is_work,
    }


def _object(facts: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in facts.items())} }}"


def make_words() -> str:
    """The table of words that live and saved views share."""
    tables: dict[str, Any] = {
        "STATUS_NAMES: Readonly<Record<Status, string>>": words.STATUSES,
        "RUN_STATUS_NAMES: Readonly<Record<RunStatus, string>>": words.RUN_STATUSES,
        "EXIT_NAMES: Words": words.EXITS,
        "WHEN_SAVED": words.WHEN_SAVED,
        "AS_IT_WAS": words.AS_IT_WAS,
        "DEMO": words.DEMO,
        "SCRIPTED_TEAM": words.SCRIPTED_TEAM,
        "WAITING_FOR_YOU": words.WAITING_FOR_YOU,
        "IN_REVIEW": words.IN_REVIEW,
        "SUBJECTS: Words": words.SUBJECTS,
        "ANSWERS: Words": words.ANSWERS,
        "NO_RETRY_LEFT": words.NO_RETRY_LEFT,
        "UNDECIDED": words.UNDECIDED,
        "UNKNOWN_WORKER": words.UNKNOWN_WORKER,
        "FAULTS: Words": wording.FAULTS,
        "LONGEST_CAUSE": wording.LONGEST_CAUSE,
        "UNKNOWN": wording.UNKNOWN,
        "SYMBOLS: Words": wording.SYMBOLS,
        "WITHOUT_CENTS: readonly string[]": wording.WITHOUT_CENTS,
    }
    return _WORDS + "".join(f"export const {name} = {_literal(value)};\n" for name, value in tables.items())


_WORDS: Final = """\
// Made by `make wire-types` from Python's trace/spans/timeline_wording.py and domain/wording.py, which have the tables.
// Data alone: the sentences that are made of it are in `wording`, and in the same modules of Python.

import type { RunStatus, Status } from "./rows";

type Words = Readonly<Partial<Record<string, string>>>;

"""


def _literal(value: Any) -> str:
    """A text, a number, a list or an object in TypeScript; what is long, in lines."""
    if isinstance(value, Mapping):
        items = [f"{_key(str(name))}:~{_literal(each).replace(' ', '~')}" for name, each in value.items()]
        return "{\n" + textwrap.fill(f"{', '.join(items)},", 116, **_INDENTED).replace("~", " ") + "\n}"
    if isinstance(value, str | int):
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + textwrap.fill(f"{', '.join(map(json.dumps, value))},", 116, **_INDENTED) + "\n]"


def _key(name: str) -> str:
    return name if name.isidentifier() or name.isdigit() else json.dumps(name)


def make_playhead() -> str:
    """What a row says at which time, and the series of a run (W35)."""
    waits = [kind.value for kind in SpanKind if kind.traits.is_wait]
    return "\n".join(
        [
            "// Made by `make wire-types` from ensemble_notebook/trace/tables/timeline_columns.py: change that file.",
            "// Data alone: loaded with the playhead.",
            *_interface("Point", SERIES),
            "",
            f"export const POINT_COLUMNS = {_names([each.name for each in SERIES.columns])};",
            "",
            "/** The columns of a row that say something before it begins, and as soon as it has. */",
            f"export const KNOWN_BEFORE = {_names([*KNOWN_BEFORE])};",
            f"const MORE_AT_START = {_names([each for each in KNOWN_AT_START if each not in KNOWN_BEFORE])};",
            "export const KNOWN_AT_START = [...KNOWN_BEFORE, ...MORE_AT_START] as const;",
            "",
            "/** The kinds of spans that wait as long as they are open. */",
            f"export const WAITS = {_names(waits)};",
            "",
        ]
    )


def make_rows() -> str:
    """The types of what messages and saved views hold."""
    lists = {"STATUSES": [*SpanStatus], "RUN_STATUSES": [*RunStatus]}
    return "\n".join(
        [
            "// Made by `make wire-types` from ensemble_notebook/trace/tables/timeline_columns.py: change that file.",
            "// Data alone: what reads a message that came from elsewhere is in `reader`.",
            "",
            'import type { Kind } from "./traits";',
            "",
            "/** Of all that is declared here. A view reads all versions up to this one. */",
            f"export const VERSION = {VERSION};",
            "",
            *(f"export const {name} = {_names([str(each) for each in names])};" for name, names in lists.items()),
            "",
            "export type Status = (typeof STATUSES)[number];",
            "export type RunStatus = (typeof RUN_STATUSES)[number];",
            f"export type Verdict = {' | '.join(json.dumps(each.value) for each in Verdict)};",
            *(line for name, table in INTERFACES.items() for line in _interface(name, table)),
            "",
            "// The numbers of a run and of its budget, for who reads them one by one.",
            f"export const RUN_COUNTS = {_names(_numbers(RUN, is_nullable=False))};",
            f"export const RUN_AMOUNTS = {_names(_numbers(RUN, is_nullable=True))};",
            f"export const MANY_COUNTS = {_names(_numbers(MANY, is_nullable=False))};",
            f"export const BUDGET_AMOUNTS = {_names(_numbers(BUDGET, is_nullable=True))};",
            "",
            "/** What a column of rows holds. What comes under another name, or holds something else, is left out. */",
            'export type Holds = "text" | "number" | "flag" | "record";',
            f"export const ROW_COLUMNS = {_holds(ROWS)} as const satisfies Partial<Record<keyof Row, Holds>>;",
            f"export const GRAPH_NODE_COLUMNS: Readonly<Record<string, Holds>> = {_holds(GRAPH_NODES)};",
            f"export const GRAPH_EDGE_COLUMNS: Readonly<Record<string, Holds>> = {_holds(GRAPH_EDGES)};",
            f"export const GRAPH_MEMBER_COLUMNS: Readonly<Record<string, Holds>> = {_holds(GRAPH_MEMBERS)};",
            "",
        ]
    )


INTERFACES: Final = {
    "Delegation": DELEGATION,
    "Review": REVIEW,
    "Round": ROUND,
    "Work": WORK,
    "Memory": MEMORY,
    "Row": ROWS,
    "Phase": PHASE,
    "ActiveSpan": ACTIVE,
    "Budget": BUDGET,
    "Many": MANY,
    "Head": HEAD,
    "Standing": STANDING,
    "Failure": FAILURE,
    "Range": RANGE,
    "PendingCall": PENDING_CALL,
    "Pending": PENDING,
    "Run": RUN,
    "GraphNode": GRAPH_NODES,
    "GraphEdge": GRAPH_EDGES,
    "GraphMember": GRAPH_MEMBERS,
}
_TYPES: Final = {"Int64": "number", "Float64": "number", "boolean": "boolean"}


def _interface(name: str, table: Table) -> Iterator[str]:
    """What a record is. A column that may be unknown may also be absent, as it is in rows, and so may their flags."""
    yield from ("", f"/** One {table.grain}. */", f"export interface {name} {{")
    for column in table.all_columns:
        unit = f" ({column.unit})" if column.unit and column.unit not in column.meaning else ""
        kind = column.type_name or _TYPES.get(column.dtype, "string")
        yield f"  /** {column.meaning}{unit} */"
        may_be_absent = column.is_nullable or (table is ROWS and column.dtype == "boolean")
        yield f"  {column.name}?: {kind} | null;" if may_be_absent else f"  {column.name}: {kind};"
    yield "}"


def _numbers(table: Table, *, is_nullable: bool) -> list[str]:
    return [each.name for each in table.columns if each.dtype in NUMBERS and each.is_nullable is is_nullable]


_INDENTED: Final[Any] = {"initial_indent": "  ", "subsequent_indent": "  ", "break_long_words": False}
_HOLDS: Final = {"Int64": "number", "Float64": "number", "boolean": "flag", "object": "record"}


def _holds(table: Table) -> str:
    items = ", ".join(f'{each.name}:~"{_HOLDS.get(each.dtype, "text")}"' for each in table.all_columns)
    return "{\n" + textwrap.fill(f"{items},", 116, **_INDENTED).replace("~", " ") + "\n}"


def _names(names: list[str]) -> str:
    return "[\n" + textwrap.fill(", ".join(map(json.dumps, names)) + ",", 116, **_INDENTED) + "\n] as const"


FILES: Final = {"kinds.ts": make_kinds, "playhead.ts": make_playhead, "rows.ts": make_rows, "words.ts": make_words}


def main() -> None:
    """Write the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
