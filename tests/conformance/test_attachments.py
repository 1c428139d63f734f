"""Pictures and PDFs: what is one, what a model is sent, what a trace keeps (E128 to E131, C107, T97)."""

from __future__ import annotations

import base64
import gc
import io
from pathlib import Path
from typing import Any

import pytest
from IPython.display import Image as ShownImage
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from PIL import Image

from ensemble_notebook import (
    Agent,
    Attachment,
    AttachmentAdded,
    Ensemble,
    ExecutionTrace,
    RunStatus,
    Task,
    TaskExecutionError,
    ValidationError,
    config,
    mcp_tools,
)
from ensemble_notebook.cell.reading.options import parse_options
from ensemble_notebook.domain import attachments
from tests.conformance.scene import done, of, scripted
from tests.support.anthropic_server import AnthropicServer
from tests.support.openai_server import Answer, OpenAIServer

PDF = b"%PDF-1.4\n1 0 obj << /Type /Pages >> 2 0 obj << /Type /Page >> 3 0 obj << /Type/Page >>"


def png(color: str = "red", size: tuple[int, int] = (8, 6)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "PNG")
    return file.getvalue()


class Figure:
    """As matplotlib has it."""

    def savefig(self, file: Any, **_: Any) -> None:
        file.write(png("blue"))


def look(llm: Any, **inputs: Any) -> Any:
    return Ensemble(tasks=[Task.of("Look at {photo}, please")], llm=llm).run(inputs)


def list_sent(server: OpenAIServer, number: int = -1) -> list[Any]:
    """The content of the last message of a request, in blocks."""
    content = server.requests[number].messages[-1]["content"]
    return content if isinstance(content, list) else [content]


@pytest.fixture(autouse=True)
def usual_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_attachment_mb", config.max_attachment_mb)


def make_values(folder: Path) -> dict[str, Any]:
    path = folder / "scan.dat"
    path.write_bytes(png())
    return {
        "attachment": Attachment(png(), "image/png"),
        "path": path,
        "pillow": Image.new("RGB", (8, 6), "red"),
        "ipython": ShownImage(data=png()),
    }


def test_e128_each_kind_of_picture_is_sent_where_its_name_stands(
    server: OpenAIServer, llm: str, tmp_path: Path
) -> None:
    for value in make_values(tmp_path).values():
        look(llm, photo=value)
        first, picture, last = list_sent(server)
        assert first["text"].endswith("Look at ")
        assert last["text"].startswith(", please")
        kind, _, encoded = picture["image_url"]["url"].partition(";base64,")
        assert kind == "data:image/png"
        assert Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def test_e128_a_pdf_and_a_list_are_sent_too(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(PDF)
    look(llm, photo=[path, Attachment(png(), "image/png")])
    _, file, picture, _ = list_sent(server)
    assert file["file"] == {
        "filename": "report.pdf",
        "file_data": f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}",
    }
    assert picture["type"] == "image_url"


def test_e128_a_path_to_another_file_is_its_text(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    path = tmp_path / "words.png"
    path.write_text("no picture")
    output = look(llm, photo=path)
    assert f"Look at {path}, please" in list_sent(server)[0]
    assert any("whose first bytes are those of no picture and no PDF" in each for each in output.warnings)


def test_e128_what_a_handler_gives_is_shown_to_those_that_read_it(server: OpenAIServer, llm: str) -> None:
    draw, describe = done("draw", handler=lambda task: Figure()), Task.of("Describe it", context=["draw"])
    output = Ensemble(tasks=[draw, describe], llm=llm).run()
    assert [each["type"] for each in list_sent(server)] == ["text", "image_url", "text"]
    assert output["draw"].raw.startswith("[picture sha256:")
    assert isinstance(output["draw"].parsed_output, Figure)


@pytest.mark.parametrize(
    "value, told",
    [
        (Path("gone.png"), "'gone.png', which ends as a picture or PDF does and can't be read: No such file"),
        (Attachment(png(size=(300, 300)), "image/png"), "bytes, and 100 is the most.*max_attachment_mb is 0.0001"),
        (ShownImage(url="http://a/b.png"), "without its bytes, at an address: nothing is fetched"),
        ({"at": Attachment(png("green"), "image/png")}, "has a picture or PDF at at, and data is text"),
    ],
    ids=["gone", "large", "address", "data"],
)
def test_e128_what_can_not_be_sent_is_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, value: Any, told: str
) -> None:
    if isinstance(value, Attachment):
        monkeypatch.setattr(config, "max_attachment_mb", 0.0001)
    llm = scripted("never")
    with pytest.raises(ValidationError, match=f"The input 'photo' .*{told}"):
        look(llm, photo=value)
    assert not llm.calls


def test_e128_pictures_that_no_model_takes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scan.tif"
    Image.new("RGB", (8, 6)).save(path)
    with pytest.raises(ValidationError, match=r"a picture that models don't take: scan.tif is TIFF. Save it as PNG"):
        look(scripted("never"), photo=path)


@pytest.mark.parametrize(
    "data, media_type, told",
    [
        (b"hello", "image/png", "said to be image/png, and its first bytes are neither a picture nor a PDF"),
        (PDF, "image/png", "said to be image/png, and its first bytes are application/pdf"),
        (png(), "image/jpg", "can't be 'image/jpg'. Did you mean 'image/jpeg'"),
        ("text", "image/png", "data must be bytes, got str"),
    ],
)
def test_e128_an_attachment_is_what_it_says(data: Any, media_type: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Attachment(data, media_type)


def test_e129_langchain_models_get_the_blocks_of_their_provider(server: OpenAIServer) -> None:
    look(ChatOpenAI(model="m", base_url=server.url, api_key="none"), photo=Attachment(png(), "image/png"))
    assert list_sent(server)[1]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    with AnthropicServer() as claude:
        claude.script("Seen.", "Read.")
        llm = ChatAnthropic(model="m", base_url=claude.url, api_key="none", max_retries=0)
        look(llm, photo=Attachment(png(), "image/png"))
        data = base64.b64encode(png()).decode()
        assert list_sent(claude)[1]["source"] == {"type": "base64", "media_type": "image/png", "data": data}
        look(llm, photo=Attachment(PDF, "application/pdf"))
        assert list_sent(claude)[1]["type"] == "document"


def test_e129_what_a_tool_gives_follows_as_said_by_the_user(server: OpenAIServer, llm: str) -> None:
    def snap() -> Image.Image:
        """Take a picture."""
        return Image.new("RGB", (8, 6), "red")

    server.script(Answer(calls=[("snap", {})]), "A red one.")
    eye = Agent(role="Eye", goal="See", llm=llm, tools=[snap])
    output = Ensemble(tasks=[Task.of("Take one", agent=eye)]).run()
    *_, result, shown = server.requests[-1].messages
    assert result["role"] == "tool"
    assert result["content"].startswith("[picture sha256:")
    assert shown["role"] == "user"
    assert [each["type"] for each in shown["content"]] == ["text", "image_url"]
    assert output.raw == "A red one."


def test_e129_what_an_mcp_server_gives_is_shown_once(server: OpenAIServer, llm: str) -> None:
    server.script(Answer(calls=[("tell", {})]), "A red dot.")
    camera = mcp_tools(["python", str(Path(__file__).parents[1] / "support" / "mcp_servers" / "odd.py"), "camera"])
    output = Ensemble(tasks=[Task.of("Take one", agent=Agent(role="Eye", goal="See", llm=llm, tools=camera))]).run()
    *_, result, shown = server.requests[-1].messages
    assert result["content"].startswith("taken\n[picture sha256:")
    assert [each["type"] for each in shown["content"]] == ["text", "image_url"]
    assert [each.media_type for each in of(output, AttachmentAdded)] == ["image/png"]


def test_e129_a_model_that_takes_none_is_not_asked(server: OpenAIServer) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        look(f"openai:gpt-3.5-turbo@{server.url}", photo=Attachment(png(), "image/png", "scan.png"))
    assert "its prompt has a picture 'scan.png', and the model gpt-3.5-turbo takes none" in str(caught.value)
    assert not server.requests


def test_e129_a_refusal_of_the_server_says_what_the_request_had(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(400))
    with pytest.raises(TaskExecutionError, match=r"The request has 1 picture, which .* may not take"):
        look(llm, photo=Attachment(png(), "image/png"))


def test_e129_a_picture_in_a_text_of_an_agent_is_a_mistake() -> None:
    cook = Agent(role="Cook", goal="Cook {photo}", llm=scripted("never"))
    with pytest.raises(ValidationError, match=r"'photo' is a picture or PDF, and \{photo\} stands in a text of agent"):
        Ensemble(tasks=[Task.of("Go", agent=cook)]).run(photo=Attachment(png(), "image/png"))


def test_e130_a_mark_stands_in_every_text_and_nothing_grows(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    picture = Attachment(png(size=(400, 400)) + b"\0" * 300_000, "image/png", "scan.png")
    output = look(llm, photo=picture)
    assert output.inputs["photo"] == picture.mark == f"[picture sha256:{picture.digest}]"
    assert picture.mark in repr(output.events)
    path = output.export(tmp_path / "run.trace.json")
    assert path.stat().st_size < 50_000
    (added,) = (each for each in ExecutionTrace.load(path).events if isinstance(each, AttachmentAdded))
    assert added.digest == picture.digest


def test_e130_reuse_goes_by_the_bytes(server: OpenAIServer, llm: str, tmp_path: Path, store_path: Path) -> None:
    path, other = tmp_path / "a.png", tmp_path / "b.png"
    path.write_bytes(png("red"))
    other.write_bytes(png("red"))
    ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm)
    ensemble.run(photo=path)
    assert ensemble.run(photo=other, reuse=True).metrics.llm_call_count == 0
    path.write_bytes(png("blue"))
    assert ensemble.run(photo=path, reuse=True).metrics.llm_call_count == 1


def test_e130_a_mark_that_somebody_writes_stands_for_nothing(server: OpenAIServer, llm: str) -> None:
    mark = Attachment(png(), "image/png").mark
    output = look(llm, photo=mark)
    assert mark in list_sent(server)[0]
    assert any("this run has no such file" in each for each in output.warnings)


def test_e130_a_conversation_goes_on_with_its_pictures(server: OpenAIServer, llm: str) -> None:
    first = look(llm, photo=Attachment(png(), "image/png"))
    Ensemble(tasks=[Task.of("And its size?", name=first.plan.tasks[0].name)], llm=llm).run(continue_from=first)
    asked = server.requests[-1].messages
    parts = [part["type"] for each in asked if isinstance(each["content"], list) for part in each["content"]]
    assert parts == ["text", "image_url", "text"]


def test_e130_rows_of_another_file_are_run_again(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.png" for number in range(2)]
    for each, color in zip(files, ("red", "blue"), strict=True):
        each.write_bytes(png(color))
    ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm)
    rows = [{"photo": str(each)} for each in files]
    result = ensemble.map(rows, attach="photo")
    files[1].write_bytes(png("green"))
    count = len(server.requests)
    ensemble.map(rows, attach="photo", resume=result)
    assert len(server.requests) == count + 1


def test_e131_a_budget_counts_pictures_and_pages_and_no_bytes(server: OpenAIServer, llm: str) -> None:
    picture = Attachment(png() + b"\0" * 200_000, "image/png")
    ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm, budget="8k tokens")
    assert ensemble.run(photo=picture).raw
    pdf = Attachment(PDF * 3, "application/pdf")
    assert pdf.page_count == 6
    output = ensemble.run(photo=pdf)
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert len(server.requests) == 1


def test_e131_an_estimate_counts_pictures_and_pages_and_reads_no_picture(
    monkeypatch: pytest.MonkeyPatch, llm: str, tmp_path: Path
) -> None:
    path, words = tmp_path / "a.png", tmp_path / "b.pdf"
    path.write_bytes(png() + b"\0" * 200_000)
    words.write_bytes(PDF)
    ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm)
    monkeypatch.setattr(attachments, "read_file", None)
    text = ensemble.estimate(rows=[{"photo": "a picture"}] * 3).input_tokens.high
    most = ensemble.estimate(rows=[{"photo": str(path)}] * 3, attach="photo").input_tokens.high
    assert 3 * attachments.TOKENS_EACH <= most - text <= 3 * (attachments.TOKENS_EACH + 200)
    monkeypatch.undo()
    pages = ensemble.estimate(rows=[{"photo": words}]).input_tokens.high
    assert pages - text / 3 >= 2 * attachments.TOKENS_EACH


def test_e131_what_is_encoded_is_gone_with_the_last_request(server: OpenAIServer, llm: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png())
    result = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm).map([{"photo": path}] * 3)
    gc.collect()
    assert len(result) == 3
    assert not attachments._encoded
    assert not attachments._read_files


def test_c107_an_input_in_a_line_is_a_picture_by_its_first_bytes(tmp_path: Path) -> None:
    picture, words = tmp_path / "scan.txt", tmp_path / "words.png"
    picture.write_bytes(png())
    words.write_text("words")
    options = parse_options(f"-i photo=@{picture} -i text=@{words}")
    assert options.inputs == {"photo": picture, "text": "words"}
    config.max_attachment_mb = 0.00001
    with pytest.raises(ValidationError, match=r"-i photo=@.*bytes, and 10 is the most"):
        parse_options(f"-i photo=@{picture}")


@pytest.mark.parametrize(
    "row, attach, told",
    [
        (
            {"photo": "gone.png"},
            "photo",
            "row 0: the column 'photo', whose files are attached, is 'gone.png', which",
        ),
        ({"photo": None}, ["photo"], "row 0: .* is empty"),
        ({"photo": __file__}, "photo", "its first bytes are those of no picture"),
        ({"photo": "a"}, "foto", "attach names the column 'foto', which is not there. Did you mean 'photo'"),
    ],
)
def test_c107_a_column_without_its_files_is_a_mistake(row: dict[str, Any], attach: Any, told: str) -> None:
    llm = scripted("never")
    with pytest.raises(ValidationError, match=told):
        Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm).map([row], attach=attach)
    assert not llm.calls


def test_c107_attach_is_about_rows() -> None:
    assert parse_options("--map rows --attach photo").attach == ("photo",)
    with pytest.raises(ValidationError, match="--attach is a column of rows"):
        parse_options("--attach photo")


def test_t97_a_trace_has_a_small_picture(server: OpenAIServer, llm: str) -> None:
    photo = Image.effect_noise((800, 600), 90)
    (added,) = of(look(llm, photo=photo), AttachmentAdded)
    assert added.media_type == "image/png"
    assert added.thumbnail is not None
    assert len(added.thumbnail) <= 20_000
    assert Image.open(io.BytesIO(base64.b64decode(added.thumbnail))).format == "WEBP"


def test_t97_a_picture_that_can_not_be_read_is_sent_and_says_so(server: OpenAIServer, llm: str) -> None:
    output = look(llm, photo=Attachment(png()[:40], "image/png"))
    (added,) = of(output, AttachmentAdded)
    assert added.thumbnail is None
    assert "can't be read" in added.thumbnail_fault
    assert output.raw


def test_t97_no_text_means_no_picture(server: OpenAIServer, llm: str) -> None:
    ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=llm, capture_mode="metadata")
    (added,) = of(ensemble.run(photo=Attachment(png(), "image/png", "scan.png")), AttachmentAdded)
    assert (added.digest, added.file_name, added.thumbnail) == ("", "", None)
    assert added.size_bytes == len(png())
