"""``python -m tests.others.ask_provider PROVIDER``: what one provider's package makes of a server, as one line of JSON.

Runs where the package is installed. A model is made as its spec makes it, with the address of a loopback server.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.models.model_spec import ModelParameters
from ensemble_notebook.models.provider_spec import PROVIDERS, ProviderSpec
from tests.others.provider_server import TEXT, TOKENS, ProviderServer
from tests.support.openai_server import Answer

CLAUDE = "claude-3-5-haiku-20241022"
ON_BEDROCK = "anthropic.claude-3-haiku-20240307-v1:0"
NAMES = {
    "anthropic": CLAUDE,
    "anthropic_bedrock": ON_BEDROCK,
    "bedrock": ON_BEDROCK,
    "bedrock_converse": ON_BEDROCK,
    "bedrock_mantle_anthropic": CLAUDE,
    "google_anthropic_vertex": "claude-3-5-haiku@20241022",
    "google_genai": "gemini-2.0-flash",
    "litellm": "openai/m",
}
REFUSALS = {
    "429": Answer.status(429),
    "500": Answer.status(500),
    "503": Answer.status(503),
    "cut": Answer(cut="before"),
}
KEY = "key-of-this-test"
PATIENCE_S = 15.0
"""How long a refused request is waited for: whoever tries again in secret does so at once, and waits between."""


def make_settings(provider: str, root: str) -> dict[str, Any]:
    """What tells a package the address of the server, and a key where it takes none from its usual variable."""
    at_v1 = {"base_url": f"{root}/v1"}
    known: Mapping[str, dict[str, Any]] = {
        "anthropic": {"base_url": root},
        "anthropic_bedrock": {},
        "azure_ai": {"endpoint": f"{root}/v1", "credential": KEY},
        "azure_openai": {"azure_endpoint": root, "api_version": "2024-06-01"},
        "bedrock": {"endpoint_url": root},
        "bedrock_converse": {"endpoint_url": root},
        "bedrock_mantle_anthropic": {"base_url": root, "api_key": KEY},
        "bedrock_mantle_openai": {**at_v1, "api_key": KEY},
        "cohere": {"base_url": root},
        "google_anthropic_vertex": {
            "project": "p",
            "location": "l",
            "access_token": KEY,
            "api_endpoint": f"{root}/v1",
        },
        "google_genai": {"base_url": root},
        "groq": {"base_url": root},
        "litellm": {"api_base": f"{root}/v1", "api_key": KEY},
        "meta": {**at_v1, "api_key": KEY},
        "perplexity": {},
    }
    return known.get(provider, at_v1)


class Asker:
    """Asks one model, by its spec and by one object, on any loop."""

    def __init__(self, provider: str, root: str) -> None:
        if (key := PROVIDERS[provider].key) is not None:
            os.environ[key] = KEY
        os.environ |= {"PERPLEXITY_BASE_URL": root, "ANTHROPIC_BEDROCK_BASE_URL": root}
        os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
        os.environ |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
        self._settings = make_settings(provider, root)
        self._spec = ProviderSpec(provider, NAMES.get(provider, "m"))
        self._source = ModelSource()
        # As somebody would write it in Python; how often boto3 tries is its client's, which is not replaced.
        tries = {} if provider in ("bedrock", "bedrock_converse") else {"max_retries": 3}
        self.object = self._spec._make(tries | self._settings)
        self.warnings: set[str | None] = set()
        self.faults: set[str] = set()

    async def ask(self, *, by_object: bool, is_streamed: bool) -> bool:
        """Ask once; whether the reply came, with its tokens."""
        async with self._source.connections_held():
            if by_object:
                port = await self._source.open_object(self.object)
            else:
                port = await self._spec.open(self._source, ModelParameters(self._settings), lambda _: None)
            self.warnings.add(port.warning)
            conversation = port.open("You cook.", "Cook.")
            try:
                reply = await conversation.reply((lambda _: None) if is_streamed else None)
            except Exception as error:  # noqa: BLE001 - whatever a package raises is told by its reason
                self.faults.add(port.classify(error).reason)
                return False
        counted = (reply.usage.input_tokens, reply.usage.output_tokens)
        if reply.text != TEXT or counted not in (TOKENS, (None, None), (None, TOKENS[1])):
            self.faults.add(f"{reply.text!r} {counted}")
            return False
        return True


@contextmanager
def kept_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop on a thread of its own, as `run` has one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def count_refused(asker: Asker, server: ProviderServer) -> dict[str, int]:
    """Count the requests that one refused attempt makes, by what refuses it, and in which form."""
    counts = {}
    for what, answer in REFUSALS.items():
        server.default = answer
        for by_object in (False, True):
            for is_streamed in (False, True):
                server.clear()
                try:
                    asking = asyncio.wait_for(asker.ask(by_object=by_object, is_streamed=is_streamed), PATIENCE_S)
                    assert not asyncio.run(asking)
                except TimeoutError:
                    pass
                counts[f"{what} object={by_object} streamed={is_streamed}"] = len(server.requests)
    return counts


def count_on_loops(asker: Asker, server: ProviderServer, *, by_object: bool) -> dict[str, int]:
    """Count replies and requests: seven on one loop after the other, and sixteen on two that are alive at once."""
    server.clear()
    server.default = Answer(TEXT, usage=TOKENS)

    def ask(number: int) -> Any:
        return asker.ask(by_object=by_object, is_streamed=bool(number % 2))

    async def ask_eight() -> list[bool]:
        return await asyncio.gather(*map(ask, range(8)))

    with kept_loop() as loop:
        replies = [asyncio.run_coroutine_threadsafe(ask(number), loop).result(60) for number in range(2)]
        replies += [asyncio.run(ask(number)) for number in range(4)]
        replies.append(asyncio.run_coroutine_threadsafe(ask(0), loop).result(60))
        in_turns = len(server.requests)
        server.default = Answer(TEXT, usage=TOKENS, delay=0.05)
        there = asyncio.run_coroutine_threadsafe(ask_eight(), loop)
        at_once = asyncio.run(ask_eight()) + there.result(60)
    return {
        "replies in turns": sum(replies),
        "requests in turns": in_turns,
        "replies at once": sum(at_once),
        "requests at once": len(server.requests) - in_turns,
    }


def main() -> None:
    """Ask, and print what was found."""
    provider = sys.argv[1]
    with ProviderServer() as server:
        asker = Asker(provider, server.root)
        found: dict[str, Any] = {f"object={each}": count_on_loops(asker, server, by_object=each) for each in (0, 1)}
        found["faults"] = sorted(asker.faults)
        began_s = time.monotonic()
        found["refused"] = count_refused(asker, server)
        found["seconds"] = round(time.monotonic() - began_s, 1)
        found["reasons"] = sorted(asker.faults - set(found["faults"]))
        found["warnings"] = sorted(filter(None, asker.warnings))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
