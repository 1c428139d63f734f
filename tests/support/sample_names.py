"""What cells of tests name, dotted: functions, models and objects that do the same in every run and process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ensemble_notebook import (
    Budget,
    Ensemble,
    MemoryEntry,
    RateLimit,
    ReviewDecision,
    ReviewRequest,
    ScriptedChatModel,
    Task,
    TaskInput,
    TaskOutput,
    ToolUse,
)
from tests.support.sample_settings import Dish, Prompts, accept, allow, approve, holds, search

__all__ = ["Dish", "accept", "allow", "approve", "holds", "search"]


class ConstantStore:
    """A memory that always remembers the same, so that a run does not depend on those before it."""

    def store(self, scope: str, entry: Any) -> None: ...

    def retrieve(self, scope: str, query: str, limit: int) -> list[MemoryEntry]:
        return [MemoryEntry(text=f"It was calm in {scope}.", created_at=datetime(2020, 1, 1, tzinfo=UTC))]


def answer(messages: Sequence[Any]) -> str:
    """What a model says: another text to another prompt, and a fitting value where a type is asked for."""
    told = "\n".join(str(each.content) for each in messages)
    mark = hashlib.sha256(told.encode()).hexdigest()[:8]
    if "## Output Format" in told:
        return json.dumps({"title": f"yes {mark}", "score": 3})
    return f"APPROVE yes, **calm** <sea> {mark}."


def measure(place: str, deep: bool = False) -> dict[str, Any]:
    """Measure a place."""
    return {"place": place, "depth": 3 if deep else 1}


def look_up(word: str) -> str:
    """Look up a word."""
    return word


def weigh(thing: str) -> float:
    """Weigh a thing."""
    return float(len(thing))


def count(given: TaskInput) -> str:
    """A handler."""
    return f"yes, {len(given.context)} read, {given.item or 'no item'}, attempt {given.attempt}"


async def count_later(given: TaskInput) -> dict[str, Any]:
    """A handler that gives a value."""
    return {"title": f"yes {given.name}", "score": len(given.context)}


def lose(given: TaskInput) -> str:
    """A handler that fails."""
    raise LookupError(f"nothing for {given.name}")


def pass_it(value: TaskOutput | TaskInput) -> bool:
    """Another guardrail that has none."""
    return bool(value.name)


def object_to(value: TaskOutput | TaskInput) -> str:
    """A guardrail that objects."""
    return "too salty"


def edit(request: ReviewRequest) -> ReviewDecision:
    """A reviewer who writes it himself, where that can be done."""
    if "edit" not in request.verdicts:
        return ReviewDecision.approve()
    return ReviewDecision.edit(request.text.replace("yes", "yes, edited"))


def leave(request: ReviewRequest) -> ReviewDecision:
    """A reviewer who leaves the run."""
    return ReviewDecision.exit_early()


def reject(request: ReviewRequest) -> ReviewDecision:
    """A reviewer who rejects."""
    return ReviewDecision.reject("too salty")


ORDER = {"agent_role": "Cook", "task_description": "Cook soup"}
model = ScriptedChatModel.match(
    {
        "Lead": [ToolUse("delegate_task", ORDER), answer],
        "You are Manager": [
            ToolUse("delegate_task", ORDER),
            ToolUse("delegate_task", {"agent_role": "Taster", "task_description": "Taste soup"}),
            answer,
        ],
        "caller": [ToolUse("search", {"query": "sea"}), answer],
        "delegator": [ToolUse("delegate", {"agent_role": "Taster", "task_description": "Taste soup"}), answer],
    },
    default=answer,
)
other_model = ScriptedChatModel(default=answer, model_name="other", max_tokens=300)
prompts, store = Prompts(), ConstantStore()
purse, bucket = Budget(max_tokens=10_000_000).shared(), RateLimit(100_000, 1)
inner = Ensemble(
    tasks=[
        Task.of("Say something about {who}", name="say"),
        Task.of("Count it", name="count", handler=count, context=["say"]),
    ],
    llm=model,
)
