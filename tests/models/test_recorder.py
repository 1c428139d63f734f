"""Exchanges with a real server, written down (E42)."""

import asyncio
import json

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import Fail, ScriptedChatModel, ValidationError
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.model_kinds import to_recorded_name
from ensemble_notebook.models.recording.recording_file import is_recording, read_documents
from tests.support.conversation import KEY, SEARCH, answering, converse, failing, plain, record_to, streamed
from tests.support.openai_server import Answer


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lesson.yaml"


@pytest.fixture
def recording(source, path):
    return record_to(source, path)


@pytest.fixture
def llm(server):
    return f"openai:m@{server.url}"


def documents(path):
    return [document.content for document in read_documents(path)]


def exchanges(path):
    return [each for each in documents(path) if "exchange" in each]


def test_exchange_is_written_as_it_was(server, recording, llm, path):
    server.script(Answer("Rest it.\nSlice it.", usage=(20, 9), cached=4, model="m-2026", finish_reason="length"))
    reply = converse(recording, llm, plain)
    model, exchange = documents(path)
    assert model["llm"] == llm
    assert (model["name"], model["is_scripted"], model["calls_tools"]) == ("m", False, True)
    assert exchange.pop("seconds") > 0
    assert exchange == {
        "exchange": 1,
        "model": llm,
        "system": "You are a cook.",
        "user": "Cook a steak.",
        "reply": {
            "text": "Rest it.\nSlice it.",
            "model": "m-2026",
            "finish_reason": "length",
            "usage": {"input_tokens": 20, "output_tokens": 9, "cache_read_tokens": 4},
        },
    }
    assert reply.text == "Rest it.\nSlice it."


def test_conversation_is_written_once_and_then_continued(server, recording, llm, path):
    server.script(Answer(None, calls=[("search", {"q": "steak"}), ("search", "{broken")]), "Rest it.")
    converse(recording, llm, answering("five minutes"), plain, tools=[SEARCH])
    first, second = exchanges(path)
    assert first["tools"] == [{"name": "search", "description": "Look it up.", "parameters": SEARCH.parameters}]
    assert first["reply"]["tool_calls"] == [
        {"id": "call_1", "name": "search", "arguments": {"q": "steak"}},
        {"id": "call_2", "name": "search", "arguments": "{broken"},
    ]
    assert second["continues"] == 1
    assert second["results"] == [
        {"call": "call_1", "tool": "search", "text": "five minutes"},
        {"call": "call_2", "tool": "search", "text": "five minutes"},
    ]
    assert "system" not in second


def test_pieces_of_a_streamed_reply_are_counted(server, recording, llm, path):
    server.default = Answer("Rest it for five minutes.", pause=0.01)
    pieces = []
    converse(recording, llm, streamed(pieces))
    (exchange,) = exchanges(path)
    assert exchange["reply"]["pieces"] == [len(piece) for piece in pieces]
    assert len(pieces) > 1
    assert server.requests[0].is_streamed


def test_failure_is_written_with_what_it_meant_and_the_next_try_refers_to_it(server, recording, llm, path):
    server.script(Answer.status(429, retry_after=7), Answer.status(500), "Rest it.")
    converse(recording, llm, failing(Exception), failing(Exception), plain)
    first, second, third = exchanges(path)
    assert first["fault"]["reason"] == "429"
    assert first["fault"]["retry_after_s"] == 7
    assert first["fault"]["is_transient"] is True
    assert first["fault"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert "scripted fault" in first["fault"]["message"]
    assert (second["repeats"], second["fault"]["reason"]) == (1, "500")
    assert (third["repeats"], third["reply"]["text"]) == (2, "Rest it.")


def test_request_that_nobody_waits_for_is_written_as_stopped(server, recording, llm, path):
    server.default = Answer(delay=30)

    async def stopped(conversation):
        asking = asyncio.ensure_future(conversation.reply())
        await server.opened()
        asking.cancel()
        await asyncio.wait([asking])

    converse(recording, llm, stopped)
    (exchange,) = exchanges(path)
    assert exchange["stopped"] is True
    assert exchange["user"] == "Cook a steak."


def test_file_is_whole_after_each_exchange(server, recording, llm, path):
    seen = []

    async def look(conversation):
        seen.append(len(exchanges(path)))

    converse(recording, llm, look, plain, look, plain, look)
    assert seen == [0, 1, 2]


def test_secrets_are_masked_everywhere(server, recording, path, monkeypatch):
    odd_key = "no-shape-that-anybody-knows"
    monkeypatch.setenv("ODD_KEY", odd_key)
    llm = {"model": "m", "base_url": server.url, "api_key_env": "ODD_KEY"}
    tool = ToolSpec(name="fetch", description=f"Uses {KEY}.", parameters={"type": "object", "default": {"key": KEY}})
    server.script(Answer(f"I saw {KEY}.", calls=[("fetch", {"auth": f"Bearer {KEY}"})]), Answer.status(401))
    answered = answering(f"said {KEY} and {odd_key}")
    converse(recording, llm, answered, failing(Exception), tools=[tool], system=KEY, user=f"{KEY} {odd_key}")
    text = path.read_text()
    assert KEY not in text
    assert odd_key not in text
    assert exchanges(path)[0]["user"] == f"{MASK} {MASK}"
    assert json.loads(server.requests[0].raw)["messages"][0]["content"] == KEY


def test_models_are_named_without_keys_and_alike_on_each_machine(server):
    assert (
        to_recorded_name(f" openai:m@{server.url}/")
        == to_recorded_name({"model": "m", "base_url": server.url})
        == f"openai:m@{server.url}"
    )
    assert to_recorded_name("openai:gpt-4o-mini") == "openai:gpt-4o-mini"
    assert to_recorded_name("local") == "local"
    assert to_recorded_name("local:w.gguf") == "local:w.gguf"
    assert to_recorded_name("scripted") == "scripted"
    model = ChatOpenAI(model="gpt-4o", api_key="k")
    assert to_recorded_name(model) == to_recorded_name(model.bind(stop=["x"])) == "ChatOpenAI gpt-4o"


def test_object_and_script_are_recorded_too(server, recording, path):
    model = ChatOpenAI(model="m", base_url=server.url, api_key="none-of-yours", max_tokens=40)
    script = ScriptedChatModel(replies=["Played.", Fail(503)])
    converse(recording, model, plain)
    converse(recording, script, plain, failing(Exception))
    first, _, second, *_ = documents(path)
    assert (first["llm"], first["max_tokens"], first["is_scripted"]) == ("ChatOpenAI m", 40, False)
    assert (second["llm"], second["provider"], second["is_scripted"]) == (
        "ScriptedChatModel scripted",
        "scripted",
        True,
    )
    assert exchanges(path)[1]["reply"]["usage"]["source"] == "scripted"


def test_each_model_is_described_once(recording, llm, path):
    converse(recording, llm, plain)
    converse(recording, llm, plain)
    assert ["llm" in each for each in documents(path)] == [True, False, False]


def test_new_recording_replaces_the_old_one_when_the_first_model_is_ready(source, llm, path):
    converse(record_to(source, path), llm, plain, user="old")
    again = record_to(source, path)
    assert "old" in path.read_text()
    converse(again, llm, plain, user="new")
    assert [each["user"] for each in exchanges(path)] == ["new"]


def test_other_file_is_not_overwritten(source, path):
    path.write_text("my notes")
    with pytest.raises(ValidationError, match=r"lesson\.yaml is no recording, and would be overwritten"):
        record_to(source, path)
    assert path.read_text() == "my notes"


def test_empty_file_may_be_filled(recording, source, llm, path):
    path.touch()
    converse(record_to(source, path), llm, plain)
    assert is_recording(path)


def test_places_where_no_file_can_be_are_refused(source, tmp_path):
    with pytest.raises(ValidationError, match="is a folder"):
        record_to(source, tmp_path)
    with pytest.raises(ValidationError, match=r"there is no folder .*nowhere"):
        record_to(source, tmp_path / "nowhere" / "lesson.yaml")


def test_tilde_is_the_home_folder(source, llm, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    converse(record_to(source, "~/lesson.yaml"), llm, plain)
    assert (tmp_path / "lesson.yaml").is_file()


def test_file_that_can_not_be_written_is_a_warning_that_names_it_e70(source, llm, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    recording = record_to(source, folder / "lesson.yaml")
    folder.rmdir()
    assert converse(recording, llm, plain).text
    (warning,) = recording.warnings
    reason = "No such file or directory. The run went on; to replay it, record anew."
    assert warning == f"The recording {folder / 'lesson.yaml'} is incomplete, since it could not be written: {reason}"


def test_mistakes_in_specs_are_found_as_without_a_recording(recording, path):
    with pytest.raises(ValidationError, match="OPENAI_API_KEY"):
        recording.check("openai:gpt-4o-mini")
    assert not path.exists()
