"""The peer that engine and models are measured beside: LangChain's ``ChatOpenAI`` by itself, with the same messages."""

from __future__ import annotations

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook import EnsembleOutput, TaskInputPrepared

Messages = list[tuple[str, str]]


def bare(model: str, url: str) -> ChatOpenAI:
    """A client; one per model, whatever the number of calls."""
    return ChatOpenAI(model=model, base_url=url, api_key=SecretStr("none"), max_retries=0)


def prompts(output: EnsembleOutput) -> list[Messages]:
    """What the tasks of a run sent to their models, in the order in which they started."""
    return [
        [("system", event.system_prompt), ("user", event.user_prompt)]
        for event in output.events
        if isinstance(event, TaskInputPrepared)
    ]
