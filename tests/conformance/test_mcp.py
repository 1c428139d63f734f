"""Tools of MCP servers (E83): real servers over stdio and HTTP, and some that do it wrongly."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from langchain_core.tools import StructuredTool

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    MissingPackageError,
    Reply,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    Tool,
    ToolCallCompleted,
    ToolUse,
    ValidationError,
    auto_review,
    mcp_tools,
)
from ensemble_notebook.interop import mcp_toolbox
from ensemble_notebook.testing import find_violations

SERVERS = Path(__file__).parents[1] / "support" / "mcp_servers"
CALCULATOR = ["python", str(SERVERS / "calculator.py")]


def odd(how: str, *arguments: str, **settings: Any) -> Any:
    return mcp_tools(["python", str(SERVERS / "odd.py"), how, *arguments], **settings)


def clerk(tools: Any, *replies: object, **fields: Any) -> Ensemble:
    """An agent with these tools, whose model does this and then says "done"."""
    llm = ScriptedChatModel(replies=[*replies, "done"])
    agent = Agent(role="Clerk", goal="Count", tools=tools, llm=llm)
    return Ensemble(tasks=[Task.of("Count", name="count", agent=agent)], llm=llm, **fields)


def told(ensemble: Ensemble) -> list[str]:
    """What the model was told of its calls."""
    return [each.content for each in ensemble.llm.calls[-1].messages if each.type == "tool"]


def startups(output: EnsembleOutput) -> list[str]:
    return [name for name in output.frames.spans.query("kind == 'wait'").name if "MCP" in name]


@pytest.fixture
def address() -> Iterator[str]:
    """A calculator that is served over HTTP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, CALCULATOR[1], str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        for line in served.stderr:
            if "running on" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
        served.terminate()


# --- A server in a run ------------------------------------------------------------------------------------------------


def test_e83_a_server_is_started_once_and_ends_with_the_run() -> None:
    calculator = mcp_tools(CALCULATOR)
    who = ToolUse("who_am_i", {})
    llm = ScriptedChatModel.match({"Count": [ToolUse("add", {"a": 2, "b": 3}), who, "five"]})
    agents = [Agent(role=role, goal="Count", tools=[calculator], llm=llm) for role in ("A", "B")]
    tasks = [Task.of("Count", name=agent.role, agent=agent) for agent in agents]
    output = Ensemble(tasks=tasks, workflow="parallel").run()
    pids = {each.content for call in llm.calls for each in call.messages if "process" in str(each.content)}
    assert len(pids) == 1
    assert len(startups(output)) == 1
    assert not psutil.pid_exists(int(pids.pop().split()[1]))
    assert find_violations(output.trace) == []


def test_e83_a_server_over_http(address: str) -> None:
    ensemble = clerk([mcp_tools(address)], ToolUse("mul", {"a": 6, "b": 7}))
    output = ensemble.run()
    assert told(ensemble) == ["42.0"]
    assert startups(output) == [f"Connecting to the MCP server '{address}'"]


def test_e134_a_server_by_the_official_package_over_http_gives_resources_and_prompts(address: str) -> None:
    toolbox = mcp_tools(address)
    ensemble = clerk([toolbox], ToolUse("mul", {"a": 6, "b": 7}))
    ensemble = ensemble.replace(tasks=[ensemble.tasks[0].replace(description="{fact}")])
    output = ensemble.run(fact=toolbox.resource("constants://{name}"), name="π/2")
    assert output.inputs["fact"] == "π/2 is 3.14"
    assert (told(ensemble), startups(output)) == (["42.0"], [])
    ensemble = clerk([toolbox])
    ensemble.run(continue_from=toolbox.prompt("check", sum_of="1 + 1 = 2"))
    said = [each.content for each in ensemble.llm.calls[-1].messages[1:]]
    assert said == ["Can you count?", "Yes.", "Is 1 + 1 = 2 right?"]


def test_e83_headers_go_with_each_request_and_secrets_among_them_are_shown_nowhere(
    address: str, tmp_path: Path
) -> None:
    token = "quite-a-long-secret-of-mine"
    toolbox = mcp_tools(address, headers={"Authorization": f"Bearer {token}", "X-Team": "docs"})
    calls = [ToolUse("tell_header", {"name": each}) for each in ("X-Team", "authorization")]
    ensemble = clerk([toolbox], *calls)
    output = ensemble.run()
    assert told(ensemble) == ["docs", f"Bearer {token}"]  # the model is told what a tool says
    output.trace.save(file := tmp_path / "run.trace.json")
    shown = [repr(toolbox), repr(toolbox.connection), repr(ensemble), str(output.plan), output.frames.messages.to_csv()]
    shown += [output.frames.tool_calls.to_csv(), file.read_text(), output._repr_mimebundle_()["text/html"]]
    assert not [each for each in shown if token in each]
    assert output.frames.tool_calls.result.tolist() == ["docs", "***"]


def test_e83_results_are_masked_as_those_of_other_tools_are(tmp_path: Path) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz123456"

    def look_up(owner: str) -> dict[str, str]:
        """Look up an account."""
        return {"owner": owner, "api_key": key}

    results = []
    for tools in ([mcp_tools(CALCULATOR).only("look_up")], [look_up]):
        ensemble = clerk(tools, ToolUse("look_up", {"owner": "Ana"}))
        output = ensemble.run()
        assert key in told(ensemble)[0]
        results.append(json.loads(output.frames.tool_calls.result.item()))
        output.trace.save(file := tmp_path / "run.trace.json")
        assert key not in file.read_text()
        assert "Ana" in file.read_text()
        assert key not in output.frames.events.to_csv() + output.frames.messages.to_csv()
        assert key not in output._repr_mimebundle_()["text/html"]
    assert results == [{"owner": "Ana", "api_key": "***"}] * 2


def test_e83_a_server_that_knows_the_newer_handshake_alone_is_reached_by_that() -> None:
    ensemble = clerk(odd("modern"), ToolUse("tell", {}))
    output = ensemble.run()
    assert told(ensemble) == ["told"]
    assert len(startups(output)) == 1


def test_e83_a_result_is_text_for_the_model_and_a_value_for_programs() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR).only("add", "divide")], *[ToolUse("add", {"a": 2, "b": 3})])
    output = ensemble.run()
    assert told(ensemble) == ["5.0"]
    (done,) = (each for each in output.events if isinstance(each, ToolCallCompleted))
    assert done.structured_output == {"result": 5.0}
    assert ensemble.llm.calls[0].tools == ("add", "divide")


def test_e83_parts_that_are_no_text_are_named() -> None:
    ensemble = clerk(odd("parts"), ToolUse("tell", {}))
    ensemble.run()
    assert told(ensemble) == ["two\nlines\n[image/png, 6 bytes, not shown]\n[atlas: file:///atlas]\na page"]


def test_e83_an_error_of_the_server_is_one_of_the_tool() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("divide", {"a": 1, "b": 0}))
    output = ensemble.run()
    assert told(ensemble)[0].startswith("Error: Error executing tool divide")
    assert output.frames.tool_calls.outcome.tolist() == ["failure"]


def test_e83_pages_are_read_and_names_are_made_fit() -> None:
    ensemble = clerk(odd("pages"), ToolUse("tell_more", {}))
    ensemble.run()
    assert ensemble.llm.calls[0].tools == ("tell", "ask", "tell_more")
    assert told(ensemble) == ["told"]


@pytest.mark.parametrize("make", [clerk, lambda *args: Ensemble(tasks=[Task.of("All", ensemble=clerk(*args))])])
def test_e83_a_tool_that_runs_as_a_task_alone_is_not_offered(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    ensemble = make(odd("tasks"), ToolUse("render", {}))
    output = ensemble.run()
    (call,) = [each for each in output.events if isinstance(each, ToolCallCompleted)]
    assert call.result.startswith("Error: there is no tool named 'render'.")
    assert caplog.text.count("The tool 'render' of the MCP server") == 1
    assert "is run as a task of MCP alone (taskSupport), which nothing here does, so it is not offered." in caplog.text
    assert "'tell'" not in caplog.text.partition("The tool 'render'")[2].partition("not offered")[0]


def test_e83_who_takes_such_a_tool_is_told_before_a_model_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    ensemble = clerk(odd("tasks").only("render"))
    with pytest.raises(
        TaskExecutionError, match=r"The tool 'render' of the MCP server .* is run as a task of MCP alone"
    ):
        ensemble.run()
    assert not ensemble.llm.calls
    ensemble = clerk([odd("tasks").only("tell")], ToolUse("tell", {}))
    ensemble.run()
    assert told(ensemble) == ["told"]
    assert caplog.text.count("so it is not offered") == 0


@pytest.mark.parametrize(
    "schema, arguments, result",
    [
        ({"type": "object", "additionalProperties": {}}, {"x": 1}, '{"x": 1}'),
        ({"type": "object", "additionalProperties": True}, {"x": 1}, '{"x": 1}'),
        ({"type": "object"}, {"x": 1}, '{"x": 1}'),
        ({"type": "object", "required": ["q"]}, {"q": 1, "x": 2}, '{"q": 1, "x": 2}'),
        ({"type": "object", "required": ["q"], "properties": {"x": {}}}, {"q": 1, "x": 2}, '{"q": 1, "x": 2}'),
        ({"type": "object", "required": ["q"]}, "tides", '{"q": "tides"}'),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {}}, {"x": {"a": 1}}, '{"x": {"a": 1}}'),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {}}, '{"x": {"a": 1}}', '{"x": {"a": 1}}'),
        ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, {"xy": 1}, '{"xy": 1}'),
        ({"type": "object", "properties": {"k": {}}, "oneOf": [{"properties": {"n": {}}}]}, {"n": 1}, '{"n": 1}'),
        (
            {"type": "object", "required": ["q"]},
            {"x": 2},
            "Error: the arguments of tool 'tell' don't fit: missing 'q'.",
        ),
        (
            {"type": "object", "properties": {"x": {}}, "additionalProperties": False},
            {"y": 1},
            "Error: the arguments of tool 'tell' don't fit: unexpected 'y'.",
        ),
        (
            {"type": "object", "properties": {}},
            {"y": 1},
            "Error: the arguments of tool 'tell' don't fit: unexpected 'y'.",
        ),
    ],
)
def test_e83_a_schema_that_is_open_takes_what_it_allows(schema: Any, arguments: Any, result: str) -> None:
    ensemble = clerk(odd("open", json.dumps(schema)), ToolUse("tell", arguments))
    ensemble.run()
    assert told(ensemble) == [result]


def test_e83_the_runs_inside_share_the_session() -> None:
    calculator = mcp_tools(CALCULATOR)
    inner = clerk([calculator], ToolUse("who_am_i", {}))
    outer = clerk([calculator, inner.as_tool("helper", "Helps")], ToolUse("who_am_i", {}), ToolUse("helper", {}))
    output = outer.run()
    assert told(outer)[0] == told(inner)[0]
    assert len(startups(output)) == 1


def test_e83_the_rows_of_a_map_share_the_session() -> None:
    llm = ScriptedChatModel.match({"Count": [ToolUse("who_am_i", {}), "done"]})
    agent = Agent(role="Clerk", goal="Count", tools=mcp_tools(CALCULATOR), llm=llm)
    result = Ensemble(tasks=[Task.of("Count {n}", agent=agent)]).map([{"n": n} for n in range(3)])
    assert result.frame.status.tolist() == ["completed"] * 3
    assert len({str(each.content) for call in llm.calls for each in call.messages if each.type == "tool"}) == 1


def test_e83_a_server_ends_with_a_stopped_run() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("who_am_i", {}), Reply("never", delay=600))
    handle = ensemble.start()
    while len(ensemble.llm.calls) < 2:
        assert not handle.is_done
        time.sleep(0.02)
    process = psutil.Process(int(told(ensemble)[0].split()[1]))
    handle.cancel()
    process.wait(timeout=30)


def test_e83_a_server_ends_with_the_kernel() -> None:
    code = (
        "import os, time\n"
        "from ensemble_notebook import *\n"
        "llm = ScriptedChatModel(replies=[ToolUse('who_am_i', {}), Reply('never', delay=600)])\n"
        f"agent = Agent(role='Clerk', goal='Count', tools=mcp_tools({CALCULATOR!r}), llm=llm)\n"
        "Ensemble(tasks=[Task.of('Count', agent=agent)]).start()\n"
        "while len(llm.calls) < 2: time.sleep(0.05)\n"
        "print(llm.calls[1].messages[-1].content, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid = int(done.stdout.split()[1])
    if psutil.pid_exists(pid):
        psutil.Process(pid).wait(timeout=30)


def test_e83_the_first_call_imports_nothing() -> None:
    code = (
        "import asyncio, sys\n"
        "from ensemble_notebook import *\n"
        "llm = ScriptedChatModel(replies=[ToolUse('add', {'a': 2, 'b': 3}), 'done'])\n"
        f"agent = Agent(role='Clerk', goal='Count', tools=mcp_tools({CALCULATOR!r}), llm=llm)\n"
        "loaded = {}\n"
        "async def main():\n"
        "    async for event in Ensemble(tasks=[Task.of('Count', agent=agent)]).astream():\n"
        "        loaded[type(event)] = set(sys.modules)\n"
        "asyncio.run(main())\n"
        "print(sorted(loaded[ToolCallCompleted] - loaded[ToolCallStarted]), 'jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


def test_e83_on_the_callers_loop_too() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("add", {"a": 2, "b": 3}))

    async def main() -> int:
        await ensemble.arun()
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert told(ensemble) == ["5.0"]


def test_e83_a_replay_answers_for_the_tools(tmp_path: Path) -> None:
    file = tmp_path / "count.yaml"
    clerk([mcp_tools(CALCULATOR)], ToolUse("who_am_i", {})).run(record=file)
    replayed = clerk([mcp_tools(CALCULATOR)]).run(replay=file)
    assert replayed.raw == "done"
    assert replayed.frames.tool_calls.result.iloc[0] in file.read_text()


# --- Questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said, result", [("2", "3.14"), ("two", "not rounded: decline")])
def test_e83_a_question_of_the_server_goes_to_the_person(said: str, result: str) -> None:
    asked: list[ReviewRequest] = []

    def answer(request: ReviewRequest) -> ReviewDecision:
        asked.append(request)
        return ReviewDecision.edit(said)

    use = ToolUse("round_it", {"value": 3.14159})
    ensemble = clerk([mcp_tools(CALCULATOR)], use, review_handler=answer)
    ensemble.run()
    assert told(ensemble) == [result]
    (request,) = asked
    assert (request.subject, request.tool, request.task) == ("question", "round_it", "count")
    assert "asks: How many digits do you want?\nDigits" in request.text


@pytest.mark.parametrize("handler", [auto_review(), lambda _: ReviewDecision.approve()], ids=["auto_review", "own"])
def test_e83_whoever_approves_everything_fills_no_form_and_one_warning_says_so(handler: Any) -> None:
    use = ToolUse("round_it", {"value": 3.14159})
    ensemble = clerk([mcp_tools(CALCULATOR)], use, use, review_handler=handler)
    output = ensemble.run()
    assert told(ensemble) == ["not rounded: decline"] * 2
    (warning,) = output.warnings
    assert warning.startswith("A question of round_it for a person, in task 'count', was left without an answer: ")
    assert f"{handler.__name__} said 'approve'" in warning
    assert "answers with ReviewDecision.edit('TEXT')" in warning


def test_e83_who_rejects_a_question_declines_it() -> None:
    handler = auto_review(ReviewDecision.reject("nothing is told"))
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("round_it", {"value": 3.14159}), review_handler=handler)
    output = ensemble.run()
    assert told(ensemble) == ["not rounded: decline"]
    assert output.warnings == ()


def test_e83_where_nobody_is_there_a_question_is_declined() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("round_it", {"value": 3.14159}))
    ensemble.run()
    assert told(ensemble) == ["not rounded: decline"]


def test_e83_a_server_that_wants_the_model_is_refused() -> None:
    ensemble = clerk([mcp_tools(CALCULATOR)], ToolUse("think", {}))
    ensemble.run()
    assert "Sampling not supported" in told(ensemble)[0]
    assert len(ensemble.llm.calls) == 2


# --- Servers that do it wrongly ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tools, said",
    [
        (odd("hang", timeout=1), "did not answer within 1 s"),
        (odd("rubbish", timeout=1), "did not answer within 1 s"),
        (odd("alike"), "two tools that are called alike: 'tell'"),
        (odd("pages").only("tel"), "has no tool 'tel'. Did you mean 'tell'? Its tools: tell, ask, tell.more"),
        ([odd("fine"), odd("silent")], "the name 'tell' stands twice among its tools"),
        (mcp_tools(["python", "-c", "exit('no licence')"]), "opened: Connection closed. It said last: no licence"),
        (mcp_tools("no-such-command --now"), "could not be opened: [Errno 2] No such file or directory"),
        (mcp_tools("http://127.0.0.1:9/mcp"), "The MCP server 'http://127.0.0.1:9/mcp' could not be opened"),
    ],
)
def test_e83_a_server_that_can_not_be_opened_costs_no_model_call(tools: Any, said: str) -> None:
    ensemble = clerk(tools)
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run()
    assert said in str(caught.value)
    assert ensemble.llm.calls == ()


@pytest.mark.parametrize(
    "tools, use, said",
    [
        (odd("silent", timeout=1), ToolUse("tell", {}), "did not do the call of 'tell': "),
        (odd("malformed"), ToolUse("tell", {}), "did not do the call of 'tell': "),
        (mcp_tools(CALCULATOR), ToolUse("die", {}), "ended in a call of 'die': Connection closed. It said last: out"),
    ],
)
def test_e83_what_goes_wrong_in_a_call_is_told_with_the_server(tools: Any, use: ToolUse, said: str) -> None:
    ensemble = clerk(tools, use)
    output = ensemble.run()
    assert output.status is RunStatus.COMPLETED
    assert told(ensemble)[0].startswith("Error: The MCP server 'python ")
    assert said in told(ensemble)[0]


def test_e83_of_a_huge_result_the_beginning_is_told() -> None:
    ensemble = clerk(odd("huge"), ToolUse("tell", {}))
    output = ensemble.run()
    assert output.status is RunStatus.COMPLETED
    assert len(told(ensemble)[0]) < mcp_toolbox.LONGEST_RESULT + 200
    assert "20,000,000 characters in all; the rest is left out" in told(ensemble)[0]


def test_e83_of_a_huge_error_the_beginning_is_told() -> None:
    ensemble = clerk(odd("failing"), ToolUse("tell", {}))
    ensemble.run()
    assert told(ensemble)[0].startswith("Error: The MCP server 'python ")
    assert len(told(ensemble)[0]) < mcp_toolbox.LONGEST_RESULT + 400
    assert "1,000,000 characters in all; the rest is left out" in told(ensemble)[0]


def test_e83_what_a_server_prints_is_one_warning(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    toolbox = mcp_tools(["python", str(SERVERS / "odd.py"), "talkative", "--token=quite-a-secret"])
    ensemble = clerk(toolbox, ToolUse("tell", {}), ToolUse("tell", {}))
    output = ensemble.run()
    assert told(ensemble) == ["told", "told"]
    assert tuple(capfd.readouterr()) == ("", "")
    (warning,) = output.warnings
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [warning]
    assert "talkative '--token=***'\" printed to its standard output, which only messages" in warning
    assert warning.endswith("have it print to its standard error: 'Loading with --token=*** ...' and 5 more lines.")


class Rubbish(BaseHTTPRequestHandler):
    """Answers with what is not JSON, although it says so."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"<html>no such page</html>")

    def log_message(self, *_: object) -> None:
        """Keep the test quiet."""


def test_e83_mcp_writes_no_traceback_into_a_cell() -> None:
    with HTTPServer(("127.0.0.1", 0), Rubbish) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        code = (
            "from ensemble_notebook import *\n"
            f"tools = mcp_tools('http://127.0.0.1:{served.server_port}/mcp', timeout=2)\n"
            "agent = Agent(role='Clerk', goal='Count', tools=tools, llm='scripted')\n"
            "try:\n"
            "    Ensemble(tasks=[Task.of('Count', agent=agent)]).run()\n"
            "except TaskExecutionError as error:\n"
            "    print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        served.shutdown()
    assert "The tools of agent 'Clerk' could not be made ready: The MCP server 'http://127.0.0.1:" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--token=a-secret=="], "'--token=***'"),
        (["--auth-token", "a-secret", "--port", "80"], "--auth-token '***' --port 80"),
        (["env", "MY_API_KEY=a-secret", "serve"], "env 'MY_API_KEY=***' serve"),
        (["-e", "PASSWORD=a-secret", "--env=TOKEN=a-secret"], "-e 'PASSWORD=***' '--env=TOKEN=***'"),
        (["--header", "Authorization: Bearer a-secret"], "--header 'Authorization: ***'"),
        (["sh", "-c", "API_KEY=a-secret serve --token a-secret --port 80"], "serve --token *** --port 80"),
        (["--token", "--verbose", "a-word"], "--token --verbose a-word"),
        (["http://host/mcp?token=a-secret"], "http://host/mcp?token=***"),
    ],
)
def test_e83_secrets_of_a_command_are_not_shown(arguments: list[str], shown: str) -> None:
    toolbox = mcp_tools(arguments if arguments[0][0] != "-" else ["serve", *arguments])
    for text in (toolbox.label, repr(toolbox), repr(toolbox.connection)):
        assert "a-secret" not in text
    assert shown in repr(toolbox)


def test_e83_a_secret_of_a_command_is_masked_in_all_that_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "one-that-nobody-sees"
    toolbox = mcp_tools(["python", str(SERVERS / "odd.py"), "talkative", "--api-key", secret])
    output = clerk(toolbox, ToolUse("tell", {}), verbose=True).run()
    output.trace.save(file := tmp_path / "run.trace.json")
    output.export(page := tmp_path / "run.html")
    shown = [file.read_text(), page.read_text(), output.frames.spans.to_csv(), caplog.text, repr(output)]
    assert "talkative --api-key" in shown[0]
    assert not [each for each in shown if secret in each]
    failed = clerk(mcp_tools(["no-such-command", "--api-key", secret]))
    with pytest.raises(TaskExecutionError) as caught:
        failed.run()
    assert secret not in str(caught.value)


# --- Declared ---------------------------------------------------------------------------------------------------------


def test_e83_nothing_is_started_before_a_run(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    toolbox = mcp_tools(["python", "-c", f"open({str(mark)!r}, 'w')"])
    ensemble = clerk([toolbox])
    ensemble.validate()
    assert "the MCP server 'python -c" in str(
        ensemble.trace_agents() if hasattr(ensemble, "trace_agents") else toolbox.label
    )
    assert ensemble.plan().total_tasks == 1
    assert ensemble.estimate().llm_calls.low == 1
    assert not mark.exists()


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: mcp_tools(""), "got none"),
        (lambda: mcp_tools(3), "got int"),  # type: ignore[arg-type]
        (lambda: mcp_tools("python 'open"), "No closing quotation"),
        (lambda: mcp_tools("python server.py", timeout=0), "timeout of mcp_tools must be seconds > 0, got 0"),
        (lambda: mcp_tools("python server.py").only(), "names of tools"),
        (lambda: mcp_tools("python server.py", headers={"A": "b"}), "headers are sent to an address; a server that is"),
        (lambda: mcp_tools("http://h/mcp", headers={"A b": "c"}), "letters, digits and '-', got 'A b'"),
        (lambda: mcp_tools("http://h/mcp", headers={"A": "b\r\nC: d"}), "The header 'A' must be one line of text"),
        (lambda: mcp_tools("http://h/mcp", headers={"A": 3}), "must be text, got int"),  # type: ignore[dict-item]
        (lambda: Task.of("Count", handler=mcp_tools("python server.py")), "has its tools for agents"),
    ],
)
def test_e83_a_wrong_toolbox_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        make()


def test_e83_without_the_package_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_toolbox, "version", lambda _: "1.30.0")
    with pytest.raises(MissingPackageError, match=r"pip install 'httpx2>=[0-9.]+' 'mcp>="):
        mcp_tools("python server.py")


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("reuse", [False, True])
def test_e83_reuse_takes_a_task_over_only_where_the_toolbox_says_so(reuse: bool) -> None:
    def make() -> Ensemble:
        return clerk(mcp_tools(CALCULATOR, reuse=reuse), ToolUse("add", {"a": 2, "b": 3}))

    make().run(reuse=True)
    again = make().run(reuse=True)
    assert again["count"].reused is reuse
    if not reuse:
        assert "may answer otherwise by now" in again.frames.tasks.reuse_reason.iloc[0]


def test_e83_text_blocks_of_langchains_adapter_are_text() -> None:
    blocks = [{"type": "text", "text": "5", "id": "lc_1"}, {"type": "text", "text": "6", "id": "lc_2"}]

    async def add(a: int) -> Any:
        return blocks, None

    facts: dict[str, Any] = {"response_format": "content_and_artifact", "coroutine": add}
    tool = StructuredTool.from_function(name="add", description="Add", **facts)
    ensemble = clerk([tool], ToolUse("add", {"a": 2}))
    ensemble.run()
    assert told(ensemble) == ["5\n6"]


# --- Reviewed tools of a server (E122, E127) --------------------------------------------------------------------------


ADD = Reply(calls=[ToolUse("add", {"a": 1, "b": 2})])


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("is_all", [True, False])
def test_e127_reviewed_tools_of_a_server_wait_and_the_others_do_not(is_all: bool) -> None:
    both = Reply(calls=[ToolUse("add", {"a": 1, "b": 2}), ToolUse("mul", {"a": 3, "b": 4})])
    toolbox = mcp_tools(CALCULATOR).only("add", "mul")
    ensemble = clerk(toolbox.reviewed() if is_all else toolbox.reviewed("add"), both)
    first = ensemble.run()
    assert [each.tool for each in first.pending] == (["add", "mul"] if is_all else ["add"])
    second = ensemble.run(resume=first, answers={each.id: "approve" for each in first.pending})
    assert second.raw == "done"
    assert told(ensemble) == ["3.0", "12.0"]


def test_e122_a_rule_of_a_toolbox_says_who_is_asked() -> None:
    toolbox = mcp_tools(CALCULATOR).only("add").reviewed("add", review=lambda call: call.arguments["a"] > 1)
    assert clerk(toolbox, ADD).run().pending == ()
    assert len(clerk(toolbox, Reply(calls=[ToolUse("add", {"a": 2, "b": 2})])).run().pending) == 1


def test_e122_a_reviewed_tool_that_the_server_has_not_fails_the_task_before_its_model_is_called() -> None:
    ensemble = clerk(mcp_tools(CALCULATOR).reviewed("ad"), ADD)
    with pytest.raises(TaskExecutionError, match=r"has no tool 'ad'\. Did you mean 'add'"):
        ensemble.run()
    assert ensemble.llm.calls == ()


def test_e122_what_is_no_reviewed_toolbox_is_refused() -> None:
    toolbox = mcp_tools(CALCULATOR)
    for make, said in (
        (lambda: toolbox.reviewed(""), "takes the names of tools"),
        (lambda: toolbox.reviewed("add", review="after"), "must be 'before'"),
        (lambda: toolbox.only("add").reviewed("mul"), "not among those"),
        (lambda: Tool(toolbox, review="before"), "toolbox.reviewed"),
    ):
        with pytest.raises(ValidationError, match=said):
            make()
