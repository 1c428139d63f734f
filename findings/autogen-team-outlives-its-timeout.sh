#!/usr/bin/env bash
# autogen-agentchat 0.7.5, autogen-ext 0.7.5 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: `asyncio.wait_for(team.run(task=...), timeout=1.2)` cancels the team, as it does any coroutine: nothing is asked after
# 1.2 s, and a `TimeoutError` comes then.
# Seen: the `TimeoutError` comes when the team has done all of its turns. The cancellation stops the one who waits for the
# team's messages, and then waits itself until the team, which runs on as tasks of its own, is idle: here 8 calls of 0.5 s
# are made, and paid for, where 3 could begin in time.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet autogen-agentchat==0.7.5 autogen-ext==0.7.5
"$folder/env/bin/python" - <<'PY'
import asyncio
import time

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

TURNS, CALL_S, TIMEOUT_S = 8, 0.5, 1.2
calls = []


class Slow(ReplayChatCompletionClient):
    async def create(self, *given, **more):
        calls.append(time.monotonic())
        await asyncio.sleep(CALL_S)
        return await super().create(*given, **more)


async def wait(make):
    calls.clear()
    started = time.monotonic()
    try:
        await asyncio.wait_for(make(Slow(["Rain."] * TURNS)), TIMEOUT_S)
    except TimeoutError:
        took = time.monotonic() - started
        await asyncio.sleep(2 * CALL_S)
        print(f"TimeoutError after {took:.1f} s of {TIMEOUT_S}, {len(calls)} calls")
        return took


async def main():
    def ask_by_itself(client):
        async def ask():
            for _ in range(TURNS):
                await client.create([])

        return ask()

    def ask_team(client):
        team = RoundRobinGroupChat([AssistantAgent("forecaster", model_client=client)], max_turns=TURNS)
        return team.run(task="Tell the weather")

    print("calls one after the other:")
    assert await wait(ask_by_itself) < 2 * TIMEOUT_S and len(calls) == 3
    print("a team:")
    assert await wait(ask_team) > 0.9 * TURNS * CALL_S and len(calls) == TURNS


asyncio.run(main())
PY
