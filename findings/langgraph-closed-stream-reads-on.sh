#!/usr/bin/env bash
# langgraph 1.2.24, langchain-core 1.8.3 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: who closes the generator of `graph.stream(stream_mode="messages")` after the first piece is free at once, and the
# model is asked for no more, as `model.stream()` itself does, and as `graph.astream()` does.
# Seen: `close()` of the synchronous stream waits until the model has said its last word. All pieces are read, and paid.
# `aclose()` of the asynchronous one ends the model's stream at once, and so does `close()` of the model's own stream.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet langgraph==1.2.24 langchain-core==1.8.3
"$folder/env/bin/python" - <<'PY'
import asyncio
import time

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph

PIECES = 40
said: list[int] = []


class SlowModel(BaseChatModel):
    """Says a word every 50 ms."""

    _llm_type = "slow"

    def _generate(self, messages, stop=None, run_manager=None, **more) -> ChatResult:
        raise NotImplementedError

    def _stream(self, messages, stop=None, run_manager=None, **more):
        for number in range(PIECES):
            time.sleep(0.05)
            said.append(number)
            yield ChatGenerationChunk(message=AIMessageChunk(f"word{number} "))

    async def _astream(self, messages, stop=None, run_manager=None, **more):
        for number in range(PIECES):
            await asyncio.sleep(0.05)
            said.append(number)
            yield ChatGenerationChunk(message=AIMessageChunk(f"word{number} "))


def answer(state: MessagesState) -> MessagesState:
    return {"messages": [model.invoke(state["messages"])]}


async def answer_async(state: MessagesState) -> MessagesState:
    return {"messages": [await model.ainvoke(state["messages"])]}


def build(node):
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile()


model = SlowModel()
question = {"messages": [("user", "How warm is it?")]}

pieces = build(answer).stream(question, stream_mode="messages")
next(pieces)
began = time.monotonic()
pieces.close()
waited = time.monotonic() - began
print(f"graph.stream: close took {waited:.1f} s, {len(said)} of {PIECES} words were said")
assert len(said) == PIECES and waited > 1

said.clear()


async def read() -> float:
    pieces = build(answer_async).astream(question, stream_mode="messages")
    await anext(pieces)
    began = time.monotonic()
    await pieces.aclose()
    took = time.monotonic() - began
    await asyncio.sleep(0.3)
    return took


waited = asyncio.run(read())
print(f"graph.astream: aclose took {waited:.1f} s, {len(said)} of {PIECES} words were said")
assert len(said) < 5 and waited < 1

said.clear()
pieces = model.stream("How warm is it?")
next(pieces)
pieces.close()
print(f"model.stream: {len(said)} of {PIECES} words were said")
assert len(said) < 5
PY
