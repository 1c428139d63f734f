"""Pictures and PDFs in the drawer, in the table of a map, in saved views and in reports (W167)."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ensemble_notebook import Attachment, Ensemble, EnsembleOutput, Task
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.notebook.picture.run_page import make_map_page, make_page
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.pictures import MOST_SENT
from ensemble_notebook.trace.timeline.saved_view import PICTURE_SHARE, measure_bytes
from ensemble_notebook.trace.timeline.timeline_messages import SAVED_BYTES, TimelineMessages

KEY = "sk-" + "a1B2" * 8
PDF = Attachment(b"%PDF-1.4\n1 0 obj << /Type /Page >>", "application/pdf", f"{KEY}.pdf")


def draw(color: str, size: int = 400) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size), color).save(file, "PNG")
    return file.getvalue()


def noise(size: int = 400) -> Any:
    return Image.effect_noise((size, size), 90)


def write_scans(folder: Path, pictures: list[bytes]) -> list[dict[str, Any]]:
    paths = [folder / f"scan_{number}.png" for number in range(len(pictures))]
    for path, data in zip(paths, pictures, strict=True):
        path.write_bytes(data)
    return [{"scan": str(path), "shop": "West"} for path in paths]


def map_scans(rows: list[dict[str, Any]], handler: Any = lambda task: "Seen.") -> Any:
    return Ensemble(tasks=[Task(name="look", description="Look at {scan}", handler=handler)]).map(rows, attach="scan")


def read(result: Any) -> TimelineMessages:
    output = result if isinstance(result, EnsembleOutput) else result._last_output
    return TimelineMessages(TraceFold.from_events(output.events))


def list_rows(messages: TimelineMessages) -> list[str]:
    return [row["span_id"] for row in messages.make_snapshot()["rows"] if "line" in row]


def open_picture(encoded: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(encoded)))


def test_w167_details_have_what_the_marks_in_their_texts_stand_for_secrets_masked():
    photo = Attachment(draw("red"), "image/png", "red.png")
    look = Task(name="look", description="Look at {photo} and {report}", handler=lambda task: task.inputs["photo"])
    output = Ensemble(tasks=[look]).run(photo=photo, report=PDF)
    messages = read(output)
    found = messages.make_details(output.run_id)["pictures"]
    words, thumbnail = found[photo.digest]
    assert words == f"red.png · picture · {len(photo.data) / 1000:.1f} kB"
    assert open_picture(thumbnail).convert("RGB").getpixel((0, 0))[0] > 200
    assert found[PDF.digest] == ["***.pdf · PDF of 1 page · 34 B", None]
    task = next(row for row in messages.make_snapshot()["rows"] if row["kind"] == "task")
    assert set(messages.make_details(task["span_id"])["pictures"]) >= {photo.digest}


def test_w167_a_run_without_pictures_has_no_word_of_them():
    messages = read(Ensemble(tasks=[Task(name="a", description="A", handler=lambda task: "A")]).run())
    saved = messages.make_saved_view()
    assert "pictures" not in saved
    assert "pictures" not in messages.make_details(saved["run"]["run_id"])


def test_w167_cells_have_the_picture_of_an_input_and_of_an_answer_once_in_a_message(tmp_path: Path):
    same = draw("green")
    result = map_scans(write_scans(tmp_path, [same, same, draw("blue")]), lambda task: Image.new("RGB", (9, 9), "red"))
    messages = read(result)
    pictures, *cells = messages.make_cells(list_rows(messages))["cells"]
    assert [cell[3] for cell in cells] == [[f"scan_{place}.png", "West"] for place in (0, 1, 2)]
    assert [sorted(cell[4]) for cell in cells] == [["0", "answer"]] * 3
    assert cells[0][4]["0"] == cells[1][4]["0"] != cells[2][4]["0"]
    assert cells[0][1] == "[picture]"
    assert set(pictures) == {digest for cell in cells for digest in cell[4].values()}
    assert all(thumbnail for _, thumbnail in pictures.values())


def test_w167_a_message_has_so_many_small_pictures_and_of_others_the_words(tmp_path: Path):
    result = map_scans(write_scans(tmp_path, [draw(f"#{number:06x}", 8) for number in range(MOST_SENT + 5)]))
    messages = read(result)
    pictures = messages.make_cells(list_rows(messages))["cells"][0]
    assert sum(thumbnail is not None for _, thumbnail in pictures.values()) == MOST_SENT
    assert len(pictures) == MOST_SENT + 5


def test_w167_a_saved_view_has_all_of_them_smaller_where_there_is_no_room(tmp_path: Path):
    pictures = []
    for _ in range(12):
        noise().save(file := io.BytesIO(), "PNG")
        pictures.append(file.getvalue())
    messages = read(map_scans(write_scans(tmp_path, pictures)))
    whole = sum(len(each.thumbnail) for each in messages._fold.attachments.values())
    assert whole > SAVED_BYTES * PICTURE_SHARE
    saved = messages.make_saved_view()
    assert measure_bytes(saved) <= SAVED_BYTES
    assert measure_bytes(saved["pictures"]) <= SAVED_BYTES * PICTURE_SHARE
    assert len(saved["pictures"]) == 12
    assert all(max(open_picture(each).size) >= 64 for _, each in saved["pictures"].values())
    few = messages.make_saved_view(20_000)
    assert measure_bytes(few) <= 20_000
    assert 0 < len(few["pictures"]) < 12


def test_w167_reports_show_pictures_of_inputs_and_answers(tmp_path: Path):
    result = map_scans(write_scans(tmp_path, [draw("red"), draw("blue")]), lambda task: task.inputs["scan"])
    page = make_map_page(result)
    assert page.count('src="data:image/webp;base64,') == 4
    assert 'alt="scan_1.png · picture · ' in page
    output = Ensemble(tasks=[Task(name="look", description="Look at {photo}", handler=lambda task: "x")]).run(
        photo=Attachment(draw("red"), "image/png", '"><script>alert(1)</script>.png')
    )
    page = make_page(output.trace)
    assert page.count('src="data:image/webp;base64,') == 1
    assert "<script>alert(1)" not in page.split("<script id=")[0]


@pytest.mark.parametrize("mode", [CaptureMode.METADATA])
def test_w167_where_no_texts_are_kept_there_is_no_picture(tmp_path: Path, mode: CaptureMode):
    task = Task(name="look", description="Look at {photo}", handler=lambda task: "x")
    output = Ensemble(tasks=[task], capture_mode=mode).run(photo=Attachment(draw("red"), "image/png", "red.png"))
    assert "red.png" not in str(read(output).make_saved_view())
    assert "base64," not in make_page(output.trace).split("<script id=")[0]
