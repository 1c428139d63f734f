"""Runs of two frameworks are watched, scored and compared, and a session is read, as docs/interop.md says it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.stories.conftest import Notebook
from tests.support.session_files import write_tide_session

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "interop.md"
# Agents of two frameworks, by the names of two conventions.
FRAMEWORKS: Final = """
import json
from opentelemetry.trace import get_tracer

def desk(question):
    def said(role, content):
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])

    tracer = get_tracer("of the conventions")
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
    call |= {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
    call |= {"gen_ai.input.messages": said("user", question), "gen_ai.output.messages": said("assistant", "18 degrees")}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}
    with tracer.start_as_current_span("invoke_agent Desk", attributes=agent):
        tracer.start_span("execute_tool look_up", attributes=tool).end()
        tracer.start_span("chat gpt-4o-mini", attributes=call).end()
    return "18 degrees"

def crew(question):
    tracer = get_tracer("openinference.instrumentation.some")
    kind = "openinference.span.kind"
    call = {kind: "LLM", "llm.model_name": "gpt-4o-mini"}
    call |= {"llm.token_count.prompt": 300, "llm.token_count.completion": 15}
    for way, role, content in (("input", "user", question), ("output", "assistant", "It is warm: 18 degrees")):
        call |= {f"llm.{way}_messages.0.message.role": role, f"llm.{way}_messages.0.message.content": content}
    with tracer.start_as_current_span("Desk", attributes={kind: "AGENT", "agent.name": "Desk"}):
        tracer.start_span("ChatCompletion", attributes=call).end()
    return "It is warm: 18 degrees"
"""


def find_cells(heading: str) -> list[str]:
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.+?)^```$", section, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("store_path")
def test_other_frameworks_are_watched_scored_and_compared(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tide_session(tmp_path).rename(tmp_path / "session.jsonl")
    monkeypatch.chdir(tmp_path)
    cells = find_cells("Watch, score and compare")
    (sessions,) = find_cells("Sessions of coding agents")
    assert len(cells) == 4
    read = re.search(r"session = (?:.|\n)+", sessions.replace("5b1f….jsonl", "session.jsonl"))
    assert read is not None
    notebook.run(FRAMEWORKS, *cells, "from ensemble_notebook import ExecutionTrace", read[0])
    assert notebook.value("[each.raw for each in watched.runs]") == ["18 degrees", "It is warm: 18 degrees"]
    scores = notebook.value("judged.frames.scores[['name', 'kind', 'passed']].values.tolist()")
    assert scores == [["contains", "code", True], ["called", "code", True], ["verdict", "human", True]]
    said = capsys.readouterr().out
    assert "{+It is warm: +}18 degrees" in said
    assert "4 rows" in said
    assert notebook.value("int(change.frame.delta_input_tokens.iloc[0])") == 200
    assert (tmp_path / "session.html").exists()
    failed = notebook.value("session.frames.spans.query(\"kind == 'tool' and status == 'error'\").tool.to_list()")
    assert "Bash" in failed
