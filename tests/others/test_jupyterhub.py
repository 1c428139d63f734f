"""A JupyterHub whose spawner sets the limits of docs/hubs.md: its users' kernels hold them (C122)."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.others.venv import ROOT, Venv
from tests.support.openai_server import OpenAIServer

_TOKEN: Final = "token-of-a-test-and-nothing-else"
_LIMIT_S: Final = 120.0
_ASK: Final = """
import asyncio, json, sys, uuid
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

async def ask(address, token, code):
    request = HTTPRequest(address, headers={"Authorization": f"token {token}"})
    socket, told = await websocket_connect(request), []
    header = {"msg_id": uuid.uuid4().hex, "session": "test", "username": "", "msg_type": "execute_request"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await socket.write_message(json.dumps(message))
    while True:
        answer = json.loads(await socket.read_message())
        if answer["parent_header"].get("msg_id") != header["msg_id"]:
            continue
        told += answer["content"].get("traceback", ()) if answer["msg_type"] == "error" else ()
        told.append(answer["content"].get("text", "") if answer["msg_type"] == "stream" else "")
        if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
            return "".join(told)

print(asyncio.run(ask(*sys.argv[1:])))
"""
_CONFIG: Final = """
c = get_config()
{documented}
c.Spawner.environment.update({changed})
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.ConfigurableHTTPProxy.command = ["{proxy}"]
c.JupyterHub.db_url = "sqlite://"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{home}/{{username}}"
c.Spawner.args = ["--allow-root"]
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
scopes = ["admin:users", "admin:servers", "access:servers"]
c.JupyterHub.load_roles = [{{"name": "test", "scopes": scopes, "services": ["test"]}}]
"""


def find_ports(count: int) -> list[int]:
    from socket import socket

    held = [socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("jupyterhub", "jupyterhub", "jupyterlab")


@pytest.fixture(scope="module")
def run(
    venv: Venv, install_node_modules: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Runs code in a kernel of a user's server."""
    home, ports = tmp_path_factory.mktemp("hub"), find_ports(3)
    proxy = install_node_modules("jupyterhub-proxy", "configurable-http-proxy") / "configurable-http-proxy"
    (documented,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "hubs.md").read_text(), re.MULTILINE | re.DOTALL
    )
    config = home / "jupyterhub_config.py"
    changed = {
        "ENSEMBLE_NOTEBOOK_LLM": "scripted",
        "ENSEMBLE_NOTEBOOK_CELL_BUDGET": "1 call",
        "ENSEMBLE_NOTEBOOK_RECORDINGS": str(home),
    }
    config.write_text(
        _CONFIG.format(documented=documented, changed=changed, ports=ports, proxy=proxy, home=home, token=_TOKEN)
    )
    environment = venv.make_environment(PYTHONWARNINGS="ignore")
    with (home / "log").open("w") as log:
        hub = subprocess.Popen(
            [venv.bin / "jupyterhub", "-f", config], cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    base = f"127.0.0.1:{ports[0]}"

    def call(path: str, method: str) -> Any:
        asked = Request(f"http://{base}{path}", method=method, headers={"Authorization": f"token {_TOKEN}"})
        with urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def wait_for(path: str, method: str) -> Any:
        deadline = time.monotonic() + _LIMIT_S
        while True:
            try:
                return call(path, method)
            except (URLError, ConnectionError):
                assert time.monotonic() < deadline, (home / "log").read_text()
                time.sleep(0.5)

    try:
        wait_for("/hub/api/users/ada", "POST")
        call("/hub/api/users/ada/server", "POST")
        kernel = wait_for("/user/ada/api/kernels", "POST")["id"]
        address = f"ws://{base}/user/ada/api/kernels/{kernel}/channels"
        yield lambda code: venv.run("python", "-c", _ASK, address, _TOKEN, code)
    finally:
        hub.terminate()
        hub.wait(30)


def test_a_users_kernel_holds_what_the_spawner_sets(run: Callable[[str], str]) -> None:
    run("%load_ext ensemble_notebook")
    run("%%ensemble -o report\ntasks: [Say a, Say b]\n")
    told = run("print(report.status.value, [each.reason for each in report.skipped])")
    assert "budget_exceeded" in told
    assert "ENSEMBLE_NOTEBOOK_CELL_BUDGET" in told


def test_a_model_that_the_hub_does_not_allow_is_refused(run: Callable[[str], str]) -> None:
    with OpenAIServer() as server:
        told = run(f"%%ensemble\nllm: openai:other@{server.url}\ntasks: [Say a]\n")
        assert "ENSEMBLE_NOTEBOOK_ALLOWED_MODELS allows local" in told
        assert not server.requests


def test_a_user_can_not_change_it_in_a_notebook(run: Callable[[str], str]) -> None:
    told = run("get_ipython().magics_manager.registry['EnsembleMagics'].cell_budget = None")
    assert "is set by ENSEMBLE_NOTEBOOK_CELL_BUDGET, and can't be changed here" in told
