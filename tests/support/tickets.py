"""A team that labels tickets, the better the more rules its prompt has; and a model that adds rules (V68)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from ensemble_notebook import Ensemble, ScriptedChatModel, Task, TaskOutput

KINDS = ("refund", "delivery", "login", "invoice")
RATES = {"input_rate": "0.000001", "output_rate": "0.000002"}


def make_rows(count: int) -> list[dict[str, Any]]:
    """Tickets with the label that each should have."""
    numbered = range(count)
    return [{"number": each, "ticket": f"{KINDS[each % 4]} {each}", "expected": KINDS[each % 4]} for each in numbered]


def right(output: TaskOutput, expected: str) -> bool:
    """Whether the label is the expected one."""
    return output.raw.strip() == expected


def read_labeller(chance: Callable[[int], float]) -> Callable[[Sequence[Any]], str]:
    """What a labelling model says: it is right about a share of the tickets, always the same ones.

    Args:
        chance: the share, by how many rules the prompt has.
    """

    def label(messages: Sequence[Any]) -> str:
        text = str(messages[-1].content)
        found = re.search(r"Ticket (\w+) (\d+)", text)
        assert found is not None, text
        luck = int(found[2]) * 7919 % 101 / 101
        return found[1] if luck < chance(len(set(re.findall(r"rule \d+", text)))) else "other"

    return label


def add_rule(messages: Sequence[Any]) -> str:
    """What a rewriting model says: the text that it is given, with one more rule, another one for other rows."""
    asked = str(messages[-1].content)
    old = asked.split("```")[1].strip()
    return f"Better:\n```\n{old}\nMind rule {zlib.crc32(asked.encode()) % 9_999}.\n```"


def make_rewriter(*replies: Any) -> ScriptedChatModel:
    """A rewriting model that says these, in turn; none: one more rule each time."""
    return ScriptedChatModel(replies=list(replies), default=None if replies else add_rule, model_name="rewriter")


def make_team(chance: Callable[[int], float], *, tasks: int = 1, **fields: Any) -> Ensemble:
    """A team whose last task labels.

    Args:
        chance: as of `read_labeller`.
        tasks: how many there are; those before the last one read the ticket.
        **fields: of the ensemble.
    """
    readers = [Task.of(f"Read step {each} of {{ticket}}", name=f"read{each}") for each in range(1, tasks)]
    label = Task.of("Label this. Ticket {ticket}", name="label", context=readers[-1:] and readers)
    model = ScriptedChatModel.match(
        {
            "Label this": read_labeller(chance),
            "Read step": "It is read.",
        }
    )
    return Ensemble(tasks=[*readers, label], llm=model, **{"name": "tickets", "cost": RATES, **fields})
