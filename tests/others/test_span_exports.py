"""What Langfuse's SDK, Logfire's and Phoenix's clients give, read as runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ensemble_notebook import load_traces
from tests.others.venv import Venv

PACKAGES = ("langfuse", "logfire", "arize-phoenix-client", "httpx", "opentelemetry-exporter-otlp-proto-common")
GIVEN = (
    *("langfuse-answer", "langfuse-json", "langfuse-fields", "langfuse-sdk"),
    *("logfire-answer", "logfire-client", "logfire-sdk", "phoenix-client"),
)


@pytest.fixture(scope="module")
def folder(make_venv: Callable[..., Venv], tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("exports")
    venv = make_venv("exports", *PACKAGES, ours=None)
    venv.run("python", Path(__file__).with_name("export_spans.py"), written)
    return written


@pytest.mark.parametrize("name", GIVEN)
def test_what_each_gives_is_a_run_with_its_agent_model_and_tokens(folder: Path, name: str) -> None:
    frames = load_traces(str(folder / f"{name}.json"))
    status = "interrupted" if name == "logfire-sdk" else "completed"  # its agent had not ended, and was pending
    assert frames.runs[["name", "status"]].to_numpy().tolist() == [["Desk", status]]
    (call,) = frames.attempts.to_dict("records")
    assert [call["model"], call["input_tokens"], call["output_tokens"]] == ["gpt-4o", 14, 3]
    if name.startswith("langfuse"):
        assert [call["cache_read_tokens"], call["cost"], call["cost_source"]] == [
            4,
            0.75,
            "langfuse-sdk" if name == "langfuse-sdk" else "langfuse",
        ]
    else:
        assert pd.isna(call["cost"])


def test_a_tool_that_failed_in_langfuses_sdk_has_failed(folder: Path) -> None:
    (tool,) = load_traces(str(folder / "langfuse-sdk.json")).tool_calls.to_dict("records")
    assert [tool["tool"], tool["status"], tool["error_message"]] == ["find", "error", "no parcel 7"]
