"""The programs of docs/coming-from.md, each before and after, against one model on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.others.venv import ROOT, Venv
from tests.support.openai_server import Answer, OpenAIServer

FRAMEWORKS: Final[dict[str, tuple[Sequence[str], Sequence[Answer | str]]]] = {
    "crewAI": (["crewai"], ["Three facts.", "The moon pulls the sea."]),
    "LangGraph": (
        ["langgraph", "langchain", "langchain-openai"],
        ["A haiku.", "Too short.", "A longer haiku.", "approve"],
    ),
    "pydantic-ai": (
        ["pydantic-ai-slim[openai]"],
        [Answer(None, calls=[("look_up", {"city": "Paris"})]), '{"city": "Paris", "degrees": 18}'],
    ),
    "AutoGen": (
        ["autogen-agentchat", "autogen-ext[openai]"],
        ["The sea moves.", "Why?", "The moon moves the sea.", "APPROVE"],
    ),
}
"""What a framework is installed by, and what its model answers, request by request."""


def read_programs(framework: str) -> list[str]:
    """The program before, and the one after."""
    document = (ROOT / "docs/coming-from.md").read_text()
    section = document.partition(f"\n## {framework}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_program_asks_as_often_and_prints_the_same(
    framework: str, make_venv: Callable[..., Venv], add_figures: Callable[..., None], tmp_path: Path
) -> None:
    packages, answers = FRAMEWORKS[framework]
    venv = make_venv(f"coming-from-{framework.lower()}", *packages, ours=None)
    before, after = read_programs(framework)
    told = []
    for python, program in ((venv.bin / "python", before), (sys.executable, after)):
        with OpenAIServer() as server:
            server.script(*answers)
            model = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "CREWAI_TRACING_ENABLED": "false"}
            ended = subprocess.run(
                [python, "-c", program],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                cwd=tmp_path,
                env=venv.make_environment(**model, CREWAI_DISABLE_TELEMETRY="true", HOME=str(tmp_path)),
            )
            assert ended.returncode == 0, ended.stderr
            told.append((ended.stdout.split("\n")[-2], len(server.requests)))
    add_figures(framework=framework, prints=told[0][0], requests=str(told[0][1]), after=str(told[1][1]))
    assert told[0] == told[1]
    assert told[1][1] == len(answers)
