"""The peer that engine and models are measured beside: the bare ``openai`` client, with the same messages."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from ensemble_notebook import EnsembleOutput, TaskInputPrepared

Messages = list[dict[str, Any]]


def bare(url: str) -> AsyncOpenAI:
    """A client; one for all calls."""
    return AsyncOpenAI(base_url=url, api_key="none", max_retries=0)


async def ask(client: AsyncOpenAI, model: str, messages: Messages, **more: Any) -> Any:
    """The message of the reply."""
    create: Any = client.chat.completions.create
    reply = await create(model=model, messages=messages, **more)
    return reply.choices[0].message


def prompts(output: EnsembleOutput) -> list[Messages]:
    """What the tasks of a run sent to their models, in the order in which they started."""
    return [
        [{"role": "system", "content": event.system_prompt}, {"role": "user", "content": event.user_prompt}]
        for event in output.events
        if isinstance(event, TaskInputPrepared)
    ]
