"""Conversations with a model source, step by step: what a step is, and the usual ones."""

from __future__ import annotations

import asyncio

import pytest

from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.recording.recorder import ExchangeLog, RecordingSource
from ensemble_notebook.models.recording.recording_file import RecordingFile

KEY = "sk-" + "a1B2" * 8
SEARCH = ToolSpec(
    name="search",
    description="Look it up.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


def converse(source, llm, *steps, tools=(), system="You are a cook.", user="Cook a steak."):
    """Run steps ``async (conversation)`` in one conversation, and give back what the last one returned."""

    async def run():
        conversation = (await source.prepare(llm, print)).open(system, user, tools)
        for step in steps:
            result = await step(conversation)
        return result

    return asyncio.run(run())


def record_to(source, path):
    """The source, recorded to a file."""
    return RecordingSource(source, ExchangeLog(RecordingFile(path)))


async def plain(conversation):
    return await conversation.reply()


def streamed(pieces):
    async def step(conversation):
        return await conversation.reply(pieces.append)

    return step


def answering(text):
    """Answer the tool calls of the next reply."""

    async def step(conversation):
        for call in (await conversation.reply()).tool_calls:
            conversation.add_tool_result(call, text)

    return step


def failing(kind):
    async def step(conversation):
        with pytest.raises(kind):
            await conversation.reply()

    return step
