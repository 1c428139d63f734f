"""Resources and prompts of the official MCP servers, as inputs, conversations and tools."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleError,
    McpToolbox,
    ScriptedChatModel,
    Task,
    ToolUse,
    mcp_tools,
)
from tests.others.venv import Venv


@pytest.fixture(scope="module")
def programs(install_node_modules: Callable[..., Path]) -> Path:
    names = (f"@modelcontextprotocol/server-{each}" for each in ("everything", "filesystem", "memory"))
    return install_node_modules("mcp-node", *names)


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("mcp-servers", "mcp-server-git", "mcp-server-fetch", ours=None)


@pytest.fixture(scope="module")
def everything(programs: Path) -> McpToolbox:
    return mcp_tools([str(programs / "mcp-server-everything")])


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a page on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<article><h1>Tides</h1><p>They come twice a day.</p></article>")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def make_team(text: str, *replies: object) -> Ensemble:
    return Ensemble(tasks=[Task.of(text, name="do")], llm=ScriptedChatModel(replies=[*replies, *["done"] * 9]))


def test_a_resource_of_everything_is_an_input(everything: McpToolbox) -> None:
    output = make_team("{text}").run(text=everything.resource("demo://resource/static/document/features.md"))
    assert output.inputs["text"].startswith("# ")


def test_each_row_of_a_map_reads_a_template_of_everything(everything: McpToolbox) -> None:
    team = make_team("{text}").replace(
        inputs={"text": everything.resource("demo://resource/dynamic/text/{resourceId}")}
    )
    result = team.map([{"resourceId": number} for number in (1, 2, 0)])
    assert result.frame.status.tolist() == ["completed", "completed", "failed"]
    told = sorted(call.messages[-1].content.split(":")[0] for call in team.llm.calls)
    assert told == ["## Task\nResource 1", "## Task\nResource 2"]


def test_text_that_everything_sends_as_bytes_is_text(everything: McpToolbox) -> None:
    output = make_team("{text}").run(
        text=everything.resource("demo://resource/dynamic/blob/{resourceId}", resourceId=1)
    )
    assert "base64 blob" in output.inputs["text"]


def test_a_prompt_of_everything_with_a_resource_in_it_is_gone_on_with(everything: McpToolbox) -> None:
    team = make_team("Go on")
    team.run(continue_from=everything.prompt("resource-prompt", resourceType="Text", resourceId=1))
    prompt = team.llm.calls[0].messages[-1].content
    assert prompt.startswith("This prompt includes the Text resource with id: 1.")
    assert "Resource 1: This is a plaintext resource" in prompt


@pytest.mark.parametrize(
    "take, why",
    [
        (lambda box: box.resource("demo://resource/static/document/feature.md"), "not found. Did you mean 'demo://"),
        (lambda box: box.prompt("arg-prompt"), "Did you mean 'args-prompt'?"),
        (lambda box: box.prompt("args-prompt"), "lacks city."),
        (lambda box: box.prompt("args-prompt", town="Rome"), "takes no 'town'."),
    ],
)
def test_what_everything_has_not_is_told_with_the_nearest(everything: McpToolbox, take: object, why: str) -> None:
    with pytest.raises(EnsembleError) as failed:
        make_team("{text}").run(text=take(everything))  # type: ignore[operator]
    assert why in str(failed.value)


def test_an_agent_reads_resources_and_prompts_of_everything(everything: McpToolbox) -> None:
    tools = [everything.resource("demo://resource/dynamic/text/{resourceId}"), everything.prompt("args-prompt")]
    calls = [ToolUse("read_resource_dynamic_text", {"resourceId": "3"}), ToolUse("args_prompt", {"city": "Rome"})]
    llm = ScriptedChatModel(replies=[*calls, "done"])
    output = Ensemble(tasks=[Task.of("Read", agent=Agent(role="Clerk", goal="Read", tools=tools, llm=llm))]).run()
    read, prompt = output.frames.tool_calls.result
    assert read.startswith("Resource 3:")
    assert prompt == "What's weather in Rome?"


def test_a_server_of_files_says_that_it_has_no_resources_but_tools(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    files = mcp_tools([str(programs / "mcp-server-filesystem"), str(tmp_path)])
    with pytest.raises(EnsembleError, match=r"has no resources. Its tools: read_file, "):
        make_team("{text}").run(text=files.resource((tmp_path / "a.md").as_uri()))


def test_the_memory_of_a_server_is_an_input(programs: Path, tmp_path: Path) -> None:
    memory = mcp_tools([str(programs / "mcp-server-memory")], env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    output = make_team("{graph}").run(graph=memory.resource("memory://knowledge-graph"))
    assert '"entities"' in output.inputs["graph"]


def test_a_page_that_a_prompt_fetches_is_an_input(venv: Venv, page: str) -> None:
    fetch = mcp_tools([str(venv.bin / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"])
    output = make_team("{page}").run(page=fetch.prompt("fetch", url=page))
    assert "They come twice a day." in output.inputs["page"]


def test_a_server_without_prompts_says_so(venv: Venv, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    repository = mcp_tools([str(venv.bin / "mcp-server-git"), "--repository", str(tmp_path)])
    with pytest.raises(EnsembleError, match=r"has no prompt 'log'. Its prompts: none."):
        make_team("{log}").run(log=repository.prompt("log"))
