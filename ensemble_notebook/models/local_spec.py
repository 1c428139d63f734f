"""Specs of the embedded model (E40): ``local`` and ``local:PATH.gguf``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from ensemble_notebook.models.model_spec import (
    ModelIdentity,
    ModelParameters,
    ModelSpec,
    Notice,
    ServedModel,
    SpecForm,
    make_spec_error,
)


@dataclass(frozen=True, slots=True)
class LocalSpec(ModelSpec):
    """The embedded model: the weights at `path`, or the default ones."""

    words: ClassVar = ("local",)
    forms: ClassVar = ("local", "local:PATH.gguf")
    examples: ClassVar = ("local",)
    calls_tools: ClassVar = False

    path: str | None = None

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self:
        """Read ``local`` and ``local:PATH.gguf``."""
        if rest is not None and not rest.lower().endswith(".gguf"):
            message = f"'{word}:{rest}' must name a file with weights, local:PATH.gguf; 'local' has its own."
            raise make_spec_error(message)
        return cls(rest)

    @classmethod
    def guess(cls, text: str) -> str | None:
        """Know weights by the end of their name."""
        return f"Did you mean 'local:{text}'?" if text.lower().endswith(".gguf") and ":" not in text else None

    @property
    def text(self) -> str:
        """As it is written."""
        return "local" if self.path is None else f"local:{self.path}"

    def check(self) -> None:
        """Check whether the file with the weights is there."""
        if self.path is not None:
            from ensemble_notebook.models.local_server import find_weights_file

            find_weights_file(self.path)

    def identify(self, parameters: ModelParameters) -> ModelIdentity:
        """Name the weights."""
        if self.path is not None:
            return ModelIdentity(Path(self.path).stem, "local", parameters.max_tokens)
        from ensemble_notebook.models.local_server import MAX_TOKENS, SMOLLM2

        return ModelIdentity(SMOLLM2.model, "local", parameters.max_tokens or MAX_TOKENS)

    async def open(self, parameters: ModelParameters, notice: Notice) -> ServedModel:  # noqa: ARG002
        """Find its server, which is started if it does not run."""
        from ensemble_notebook.models.local_server import find_name_to_start, get_local_server
        from ensemble_notebook.models.openai.endpoint import Endpoint

        if (name := find_name_to_start(self.path)) is not None:
            # Here, since the loop hears nothing while llama.cpp's binding holds the interpreter's lock.
            notice(f"Starting {name} ...")
        say = asyncio.get_running_loop().call_soon_threadsafe  # for the thread that starts it
        server = await asyncio.to_thread(get_local_server, self.path, lambda text: say(notice, text))
        return ServedModel(
            endpoint=Endpoint(server.name, server.url, None, server.api_key),
            provider="local",
            has_tool_support=server.has_tool_support,
            has_schema_support=True,
            refused_kinds=frozenset({"picture", "PDF"}),
            context_window=server.context_window,
            place_count=2,  # both ends are in this process
            # Streamed inside in any case: the server notices that nobody waits any more only while it sends.
            settings={"max_tokens": server.max_tokens, "streaming": True},
            watch_socket=server.watch_socket,
        )

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Say whether the default weights are here."""
        from ensemble_notebook.models.local_server import SMOLLM2, is_pulled

        default, other = cls.forms
        has_weights = is_pulled()
        size = f"{SMOLLM2.size / 1e6:.0f} MB"
        note = (
            f"weights in {SMOLLM2.path}"
            if has_weights
            else f"{size} are fetched once, at first use or by `models pull`"
        )
        return (
            SpecForm(spec=default, meaning=f"{SMOLLM2.model} in this process", is_ready=has_weights, note=note),
            SpecForm(
                spec=other,
                meaning="other weights in this process",
                is_ready=True,
                note="any GGUF file that llama.cpp can run",
            ),
        )
