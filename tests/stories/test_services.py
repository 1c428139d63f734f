"""The files of docs/services.md, as they stand: a service that streams, its tests, and a script (E80).

The service has 20 lines. With pydantic-ai 2.68 it has 19, on the same server and with the same requests: the
first task is awaited by hand, and the total of the tokens is passed from agent to agent.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.openai_server import Answer, OpenAIServer, Request

GUIDE = Path(__file__).parents[2] / "docs" / "services.md"
FILES = dict(re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.+?)^```$", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the guide, in a folder of their own."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def environment(server: OpenAIServer) -> dict[str, str]:
    python_path = os.pathsep.join(filter(None, [str(GUIDE.parents[1]), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key", "PYTHONPATH": python_path}


@pytest.fixture
def service(folder: Path, server: OpenAIServer) -> Iterator[str]:
    """The address of the service, in a process of its own."""
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "service:app", "--port", "0", "--no-use-colors"]
    started = subprocess.Popen(command, cwd=folder, env=environment(server), stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    said = []
    for line in started.stderr:
        said.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            break
    else:
        pytest.fail("".join(said))
    yield found[1]
    started.terminate()
    rest = started.communicate(timeout=30)[1]
    assert "Traceback" not in rest, rest


def choose(request: Request) -> Answer:
    if "Answer the question" in request.prompt:
        return Answer("Yes, you may, from noon on.", pause=0.05)
    return Answer("Ask first.")


async def read(url: str, pieces: list[str], *, limit: int | None = None) -> None:
    """The lines of an event stream; hangs up after `limit` of them."""
    query = {"question": "May I?"}
    async with httpx.AsyncClient(timeout=30) as client, client.stream("GET", f"{url}/advice", params=query) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        async for line in reply.aiter_lines():
            pieces += [line] if line else []
            if len(pieces) == limit:
                return


def test_the_service_sends_the_answer_as_it_is_said(service: str, server: OpenAIServer) -> None:
    server.choose = choose
    pieces: list[str] = []
    asyncio.run(read(service, pieces))
    assert pieces[0] == 'data: "Yes,"'
    assert pieces[-2:] == ["event: end", 'data: {"tokens": 36}']
    assert "Ask first." not in "".join(pieces)


def test_a_client_that_hangs_up_stops_its_run_and_no_other(service: str, server: OpenAIServer) -> None:
    server.choose = choose

    async def two_clients() -> list[str]:
        stays: list[str] = []
        staying = asyncio.ensure_future(read(service, stays))
        await server.opened(2)
        await read(service, [], limit=1)
        await server.closed(3)
        await staying
        return stays

    stays = asyncio.run(two_clients())
    assert stays[-2] == "event: end"
    assert [each.is_disconnected for each in server.requests] == [False, False, False, True]


def test_a_refusal_of_the_model_is_an_event_of_the_stream(service: str, server: OpenAIServer) -> None:
    server.default = Answer.status(401, message="no such key")
    pieces: list[str] = []
    asyncio.run(read(service, pieces))
    assert pieces[0] == "event: error"
    assert "facts" in pieces[1]


def test_the_tests_of_the_service_pass(folder: Path, server: OpenAIServer) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_service.py"]
    done = subprocess.run(command, cwd=folder, env=environment(server), capture_output=True, text=True, timeout=120)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert server.requests == []


def test_the_script_says_how_far_it_is(folder: Path, server: OpenAIServer) -> None:
    server.script("Slow.", "Fast.", "It got faster.")
    command = [sys.executable, "-W", "error", "report.py", "mail"]
    done = subprocess.run(command, cwd=folder, env=environment(server), capture_output=True, text=True, timeout=120)
    assert done.stdout == "It got faster.\n", done.stderr
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1 of 3", "2 of 3", "3 of 3"]
    assert lines[-1] == "3 of 3: summary"


CRON = re.findall(r"^```cron\n(.+?)\n```$", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)[0]
MORNING = "Three früh trains.\nOne late.\nNo fault."


def run_as_cron(folder: Path, server: OpenAIServer) -> subprocess.CompletedProcess[str]:
    """Run the command of the crontab as cron does: by sh, with no terminal, no locale, and hardly any variable."""
    command = CRON.split(maxsplit=5)[5].replace("/srv/digest", str(folder))
    kept = {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env=kept | {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_c117_cron_runs_a_cell_each_morning_and_a_failure_leaves_the_last_answer(
    folder: Path, server: OpenAIServer
) -> None:
    (folder / "log.txt").write_text("all trains ran früh", encoding="utf-8")
    server.script(MORNING)
    done = run_as_cron(folder, server)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "all trains ran früh" in server.requests[0].prompt
    assert (folder / "digest.md").read_text(encoding="utf-8") == MORNING
    assert "✓ completed · morning" in (folder / "last.txt").read_text(encoding="utf-8")
    server.default = Answer.status(401, message="no such key")
    done = run_as_cron(folder, server)
    assert done.returncode == 1
    assert "no such key" in done.stderr
    assert (folder / "digest.md").read_text(encoding="utf-8") == MORNING


SCHEDULED = """
import threading
from datetime import datetime
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from morning import scheduler, write_digest

(job,) = scheduler.get_jobs()
friday_noon = datetime(2026, 11, 27, 12, tzinfo=scheduler.timezone)
print(job.trigger.get_next_fire_time(None, friday_noon).strftime("%A %H:%M"))
scheduler.add_job(write_digest)  # now
ended = lambda _: threading.Thread(target=scheduler.shutdown).start()
scheduler.add_listener(ended, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
scheduler.start()
"""


def test_a_scheduler_runs_it_each_morning(folder: Path, server: OpenAIServer) -> None:
    (folder / "log.txt").write_text("all trains ran")
    server.script(MORNING)
    command = [sys.executable, "-W", "error", "-c", SCHEDULED]
    done = subprocess.run(command, cwd=folder, env=environment(server), capture_output=True, text=True, timeout=120)
    assert done.stdout == "Monday 06:30\n", done.stderr
    assert (folder / "digest.md").read_text() == MORNING
