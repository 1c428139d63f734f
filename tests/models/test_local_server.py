"""The embedded model (E40), with its real weights."""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.local_server import CONTEXT_PER_SLOT, MAX_TOKENS, SLOTS, SMOLLM2, get_local_server
from ensemble_notebook.models.model_source import ModelSource

ROOT = Path(__file__).parent.parent.parent
TOOL = ToolSpec(name="search", description="Look it up.", parameters={"type": "object", "properties": {}})

pytestmark = pytest.mark.usefixtures("fetched")


@pytest.fixture
def server(fetched):
    return get_local_server(None, print)


def ask(source, prompt="Name one fruit.", *, on_token=None, tools=()):
    async def run():
        port = await source.prepare("local", print)
        return await port.open("You answer in one word.", prompt, tools).reply(on_token)

    return asyncio.run(run())


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is waited for happens in llama.cpp
        await asyncio.sleep(0.02)


def test_real_tokens_without_key_or_network(source):
    reply = ask(source)
    assert reply.text.strip()
    assert reply.usage.input_tokens > 10
    assert 0 < reply.usage.output_tokens <= MAX_TOKENS
    assert (reply.model, reply.finish_reason in ("stop", "length")) == ("SmolLM2-135M-Instruct", True)


def test_port_says_what_the_model_is(source):
    port = asyncio.run(source.prepare("local", print))
    assert (port.name, port.provider, port.is_scripted, port.has_tool_support) == (
        "SmolLM2-135M-Instruct",
        "local",
        False,
        False,
    )
    assert port.context_window == CONTEXT_PER_SLOT


def test_streamed_reply_is_the_same(source):
    pieces = []
    streamed = ask(source, on_token=pieces.append)
    assert streamed.text == "".join(pieces) == ask(source).text
    assert streamed.usage.output_tokens >= len(pieces)


def test_babbling_is_bounded(source):
    reply = ask(source, "Write a very long story about a dragon and a cook, with every detail.")
    assert (reply.usage.output_tokens, reply.finish_reason) == (MAX_TOKENS, "length")


def test_tools_do_no_harm(source):
    assert ask(source, tools=[TOOL]).tool_calls == ()


def test_several_tasks_are_answered_side_by_side(source, server):
    async def run():
        port = await source.prepare("local", print)
        pieces = [[] for _ in range(SLOTS)]
        replies = await asyncio.gather(
            *(port.open("You are a cook.", f"Describe dish {n}.").reply(pieces[n].append) for n in range(SLOTS))
        )
        return [reply.text for reply in replies], ["".join(each) for each in pieces]

    texts, joined = asyncio.run(run())
    assert texts == joined
    assert all(texts)


def test_all_who_wait_for_the_server_are_told_and_nobody_once_it_runs(source):
    said = []

    async def prepare():
        await asyncio.gather(*(source.prepare("local", said.append) for _ in range(3)))

    asyncio.run(prepare())
    assert set(said) <= {f"Starting {SMOLLM2.model} ...", f"Loading the client of {SMOLLM2.model} ..."}
    said.clear()
    asyncio.run(ModelSource().prepare("local", said.append))
    assert said == []


def test_cancelled_request_frees_its_place(source, server):
    async def run():
        port = await source.prepare("local", print)
        task = asyncio.create_task(port.open("You are a poet.", "Write a very long poem on rain.").reply())
        await until(server.is_busy)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(until(lambda: not server.is_busy()), timeout=60)

    asyncio.run(run())


def test_port_is_closed_to_those_without_the_key(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{server.url}/models")
    with caught.value as refused:
        assert refused.code == 401 or refused.status == 401
    assert mask(server.api_key) == "***"


def test_server_lets_no_origin_in(server):
    base = server.url.removesuffix("/v1")
    asked = {"Origin": "http://evil.example", "Authorization": f"Bearer {server.api_key}"}
    preflight = {**asked, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for method, headers in (("GET", asked), ("OPTIONS", preflight)):
        request = urllib.request.Request(f"{base}/v1/models", headers=headers, method=method)
        with urllib.request.urlopen(request) as reply:
            allowed = {name: reply.headers.get(f"Access-Control-Allow-{name}") for name in ("Origin", "Credentials")}
            assert allowed["Origin"] == ""
            assert allowed["Credentials"] in (None, "false")


@pytest.mark.parametrize("path", ["/", "/health", "/v1/health", "/v1/models", "/props", "/slots", "/index.html"])
def test_only_who_knows_the_path_is_answered_whatever_the_host(server, path):
    root = server.url.removesuffix("/v1").rpartition("/")[0]
    headers = {"Host": "rebound.example", "Authorization": f"Bearer {server.api_key}"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{root}{path}", headers=headers))
    with caught.value as refused:
        assert refused.code == 404
    assert mask(server.url) == f"{root}***/v1"


def test_prompt_that_is_too_long_is_explained(source):
    async def run():
        port = await source.prepare("local", print)
        with pytest.raises(Exception, match="context") as caught:
            await port.open("s", "rain " * 5000).reply()
        return port.classify(caught.value)

    fault = asyncio.run(run())
    assert (fault.reason, fault.is_transient) == ("400", False)
    assert "too long" in fault.advice


def test_weights_can_be_named_by_path(source, fetched, server):
    path, _ = fetched
    assert get_local_server(str(path), print) is server


@pytest.mark.parametrize("content, says", [(b"", "holds no weights"), (b"GGUF" + bytes(1000), "can't use the weights")])
def test_file_that_holds_no_weights_is_explained(source, tmp_path, content, says):
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    with pytest.raises(ValidationError, match=says):
        asyncio.run(source.prepare(f"local:{path}", print))


BUSY = """
import asyncio, threading
from ensemble_notebook.models.local_server import get_local_server
from ensemble_notebook.models.model_source import ModelSource

async def write(port, seen):
    await port.open("You are a poet.", "Write a very long poem on rain.").reply(lambda text: seen.set())

async def begin(seen):
    port = await ModelSource().prepare("local", print)
    return [asyncio.ensure_future(write(port, seen)) for _ in range(3)]

loop, seen = asyncio.new_event_loop(), threading.Event()
threading.Thread(target=loop.run_forever, daemon=True).start()
tasks = asyncio.run_coroutine_threadsafe(begin(seen), loop).result()
seen.wait()
print("leaving busy" if get_local_server(None, print).is_busy() else "leaving idle")
"""

FORKED = """
import os, sys
from ensemble_notebook.models.local_server import get_local_server

server = get_local_server(None, print)
child = os.fork()
if child == 0:
    sys.exit(3)
_, status = os.waitpid(child, 0)
state = "busy" if server.is_busy() else "idle"
print(f"child ended with {os.waitstatus_to_exitcode(status)} and the parent's server is {state}")
"""


def run_script(text):
    return subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_process_ends_while_the_model_is_writing():
    ended = run_script(BUSY)
    assert ended.returncode == 0, ended.stderr
    assert "leaving busy" in ended.stdout


def test_forked_child_ends_without_the_parent_s_server():
    ended = run_script(FORKED)
    assert ended.returncode == 0, ended.stderr
    assert "child ended with 3 and the parent's server is idle" in ended.stdout
