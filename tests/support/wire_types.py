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
_OTHER: Final = {"title": "Span", "sign": "", "isBead": True}


def make_kinds() -> str:
    """The table of span kinds that views show."""
    shown = [kind for kind in SpanKind if kind.traits.is_shown]
    rows = [f"  {kind.value}: {_object(_kind(kind))}," for kind in shown]
    return _KINDS.replace("ROWS", "\n".join([*rows, f"  other: {_object(_OTHER)},"]))


_KINDS: Final = """\
// Made by `make wire-types` from ensemble_notebook/trace/spans/span_kinds.py: change the table there.
// Data alone: how a kind is drawn stands in the rooms that draw.

export interface KindTraits {
  /** What a person calls one. */
  readonly title: string;
  /** What stands before its name. */
  readonly sign: string;
  /** True for what is drawn as a small bead, since it is mostly too short for a bar. */
  readonly isBead: boolean;
}

/** What stands for a kind that only a later version knows. */
export const OTHER_KIND = "other";

const TRAITS = {
ROWS
} as const;

export type Kind = keyof typeof TRAITS;

export const KIND_TRAITS: Readonly<Record<Kind, KindTraits>> = TRAITS;
"""


def _kind(kind: SpanKind) -> dict[str, Any]:
    return {"title": kind.traits.title, "sign": kind.traits.sign, "isBead": kind.traits.is_bead}


def _object(facts: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{name}: {json.dumps(value, ensure_ascii=False)}' for name, value in facts.items())} }}"


FILES: Final = {"kinds.ts": make_kinds}


def main() -> None:
    """Write the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
