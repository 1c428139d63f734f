"""A run goes into Phoenix as OTLP, live and from a file, and comes back by its pages, as docs/interop.md says it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.others.venv import ROOT, Venv

_TELL: Final = """
import json, sys
from urllib.request import urlopen
from tests.support.viewer_story import tell_viewer_story

def is_there(count):
    return len(json.load(urlopen(f"{sys.argv[1]}/v1/projects/default/spans?limit=1000"))["data"]) == count

tell_viewer_story(sys.argv[1], is_there)
"""
_KINDS: Final = {"invoke_workflow": "UNKNOWN", "invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL"}
START_LIMIT_S: Final = 120.0


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("phoenix", "arize-phoenix", "opentelemetry-exporter-otlp-proto-http", ours="[otel]")


@pytest.fixture(scope="module")
def url(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a Phoenix that serves this computer alone, with nothing in it."""
    folder = tmp_path_factory.mktemp("phoenix")
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        port, grpc_port = (str(each.getsockname()[1]) for each in (first, second))
    environment = venv.make_environment(
        PHOENIX_WORKING_DIR=str(folder),
        PHOENIX_HOST="127.0.0.1",
        PHOENIX_PORT=port,
        PHOENIX_GRPC_PORT=grpc_port,
        PHOENIX_TELEMETRY_ENABLED="false",
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([venv.bin / "phoenix", "serve"], env=environment, stdout=log, stderr=log)
    try:
        wait_for_server(f"http://127.0.0.1:{port}/healthz", server, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def wait_for_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    limit_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            urlopen(url).close()
        except URLError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < limit_s, log.read_text()
            time.sleep(0.5)
        else:
            return


def test_a_run_comes_back_with_its_agents_calls_tokens_messages_and_arguments(
    venv: Venv, url: str, tmp_path: Path
) -> None:
    venv.run("python", "-c", _TELL, url, cwd=tmp_path, PYTHONPATH=str(ROOT))


def test_phoenix_knows_agents_models_and_tools_and_counts_the_tokens(url: str) -> None:
    spans = json.load(urlopen(f"{url}/v1/projects/default/spans?limit=1000"))["data"]
    assert {(each["name"].split()[0], each["span_kind"]) for each in spans} == {*_KINDS.items()}
    calls = [each["attributes"] for each in spans if each["span_kind"] == "LLM"]
    for each in calls:
        assert each["llm.token_count.prompt"] == each["gen_ai.usage.input_tokens"]
        assert each["llm.token_count.completion"] == each["gen_ai.usage.output_tokens"]
        assert each["llm.input_messages.0.message.role"]
