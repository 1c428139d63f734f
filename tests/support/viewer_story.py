"""The story of docs/interop.md in which a run goes into a viewer and comes back, for a viewer at any address."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ensemble_notebook import ScriptedChatModel, ToolUse, load_traces

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "interop.md"


def tell_viewer_story(url: str, is_there: Callable[[int], bool]) -> dict[str, Any]:
    """Run the lines of the document, in the working directory, and hold what comes back to what was sent.

    Args:
        url: of the viewer, which has nothing yet.
        is_there: whether it has so many spans by now; asked again for half a minute.

    Returns:
        The variables of the story.

    Raises:
        AssertionError: something was lost.
    """
    section = DOCUMENT.read_text().partition("\n## Into a viewer and back\n")[2].partition("\n## ")[0]
    told = [
        block.replace("http://localhost:6006", url).replace("openai:gpt-5-mini", "model")
        for block in re.findall(r"^```python\n(.+?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    ]
    replies = [ToolUse("find", {"place": "Brest"}), "High water at noon.", "Mind the tide."]
    names: dict[str, Any] = {"model": ScriptedChatModel(replies=replies)}
    live, read, post = (block.replace('{"viewer"', '{"model": model, "viewer"') for block in told)
    exec(live, names)
    _wait(is_there, 7)
    exec(read, names)
    _hold(names["back"], names["output"])
    exec(post, names)
    _wait(is_there, 14)
    exec(read, names)
    both = names["back"].runs.index
    assert len(both) == 2
    for run_id in both:
        names["back"]._load_trace(run_id).save(f"{run_id}.trace.json")
        _hold(load_traces(f"{run_id}.trace.json"), names["output"])
    return names


def _wait(is_there: Callable[[int], bool], count: int) -> None:
    limit_s = time.monotonic() + 30
    while not is_there(count):
        assert time.monotonic() < limit_s, f"there are not {count} spans"
        time.sleep(0.2)


def _hold(theirs: Any, output: Any) -> None:
    """What came back is what was sent, as far as the conventions have a place for it."""
    ours = output.frames
    for frame, columns in {
        "attempts": ["agent", "status", "model", "input_tokens", "output_tokens"],
        "tool_calls": ["tool", "agent", "status", "arguments", "result"],
        "messages": ["agent", "role", "text", "tool_calls"],
        "runs": ["name", "status", "input_tokens", "output_tokens", "llm_call_count", "tool_call_count"],
    }.items():
        told, sent = (getattr(each, frame)[columns].astype(object).values.tolist() for each in (theirs, ours))
        assert told == sent, frame
    kinds = ["run", "task", "turn", "llm", "attempt", "tool"]
    counts = [each.spans.kind.value_counts().reindex(kinds).tolist() for each in (theirs, ours)]
    assert counts[0] == counts[1]
    around = [
        each.spans.parent_id.map(each.spans.kind)[each.spans.kind.isin(kinds)].tolist() for each in (theirs, ours)
    ]
    assert around[0] == around[1]
