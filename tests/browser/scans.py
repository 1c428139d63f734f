"""A map over twenty made-up scans and photos, as it is saved: for tests and pictures of the view."""

from __future__ import annotations

import io
from random import Random
from typing import Any

from PIL import Image, ImageDraw

from ensemble_notebook import Agent, Attachment, Ensemble, MapResult, ScriptedChatModel, Task
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

COUNT = 20
_KINDS = ("receipt", "invoice", "photo")
_COLORS = ((40, 60, 110), (150, 40, 40), (30, 110, 80), (120, 80, 30))


def draw_scan(number: int) -> bytes:
    """A PNG of a receipt or an invoice, or of a landscape."""
    draw_from, kind = Random(number), _KINDS[number % len(_KINDS)]
    image = Image.new("RGB", (320, 240), (245, 243, 238) if kind != "photo" else (120, 170, 220))
    pen = ImageDraw.Draw(image)
    if kind == "photo":
        left = 40 + 12 * number
        pen.ellipse((left, 30, left + 50, 80), fill=(255, 236, 150))
        pen.polygon([(0, 240), (110, 110), (230, 240)], fill=(60, 90, 60))
        pen.polygon([(110, 240), (230, 140), (320, 240)], fill=(40, 70, 50))
    else:
        pen.rectangle((20, 16, 300, 52), fill=_COLORS[number % len(_COLORS)])
        for y in range(70, 220, 17):
            pen.rectangle((20, y, draw_from.randint(90, 220), y + 8), fill=(90, 90, 96))
            pen.rectangle((250, y, 300, y + 8), fill=(120, 120, 126))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def map_scans() -> MapResult:
    """Have a scripted model say what is on each."""
    says = [
        "No receipt: hills under a sun."
        if number % 3 == 2
        else f"{_KINDS[number % 3].title()}, {7 + 3 * number}.50 EUR in all."
        for number in range(COUNT)
    ]
    reader = Agent(role="Reader", goal="Read scans", llm=ScriptedChatModel(replies=says))
    rows = [
        {
            "scan": Attachment(draw_scan(number), "image/png", f"scan_{number:02}.png"),
            "shop": ("Nord", "West")[number % 2],
        }
        for number in range(COUNT)
    ]
    look = Task.of("What is on {scan}, and how much is it in all?", name="look", agent=reader)
    return Ensemble(tasks=[look], name="scans").map(rows, concurrency=1)


def save_scans() -> dict[str, Any]:
    """The saved view of that map."""
    output = map_scans()._last_output
    assert output is not None
    return TimelineMessages(TraceFold.from_events(output.events)).make_saved_view()
