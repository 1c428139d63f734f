"""TypeScript's side of what Python tells the timeline, made from Python's tables (T27, T28).

``make wire-types`` writes the files, which are committed, since the bundle is built from them; a test holds them to the
tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.trace.spans.span_kinds import SpanKind

FOLDER: Final = Path(__file__).parents[2] / "js" / "src" / "wire"


def make_kinds() -> str:
    """The table of span kinds that views show."""
    shown = [kind for kind in SpanKind if kind.traits.is_shown]
    rows = [f"  {kind.value}: {_object(_kind(kind))}," for kind in shown]
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
}

const TRAITS = {
ROWS
} as const satisfies Record<string, KindTraits>;

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
    }


def _object(facts: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in facts.items())} }}"


FILES: Final = {"kinds.ts": make_kinds}


def main() -> None:
    """Write the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
