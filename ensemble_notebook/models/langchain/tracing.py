"""LangChain's own tracing, which environment variables switch on for all that a process does: kept out of runs (E68).

A run contacts its models and nobody else, so that prompts don't leave for a service since somebody once set a variable.
Callbacks that stand on a model object, or in the context of whoever runs, are left alone: they were meant.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.config import config

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler

_VARIABLES: Final = (
    "LANGSMITH_TRACING",
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGCHAIN_WANDB_TRACING",
    "LANGCHAIN_COMET_TRACING",
)
# LangChain refuses every request where one of these stands alone, so that no spec is led to it by them.
_OLD_VARIABLES: Final = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
# What LangChain takes for a variable that is not set.
_OFF: Final = ("", "0", "false", "False")
_IGNORED: Final = (
    "ignore_agent",
    "ignore_chain",
    "ignore_chat_model",
    "ignore_custom_event",
    "ignore_llm",
    "ignore_retriever",
    "ignore_retry",
)


def find_tracing_variable() -> str | None:
    """Find the variable of the environment that switches tracing on; None where none does."""
    return next((name for name in (*_VARIABLES, *_OLD_VARIABLES) if _is_set(name)), None)


def is_traced_by_environment() -> bool:
    """Whether a variable has LangChain tell somebody of all requests, as a user of ours lets it. Imports nothing."""
    return config.langsmith and any(map(_is_set, _VARIABLES))


@asynccontextmanager
async def no_tracing_by_environment() -> AsyncIterator[None]:
    """Keep tracing that a variable has switched on out of what is done in here, also in tasks and threads of it."""
    if find_tracing_variable() is None:
        yield
        return
    # Takes a moment, and the loop may be a kernel's.
    context = await asyncio.to_thread(importlib.import_module, "langchain_core.tracers.context")
    langsmith = await asyncio.to_thread(importlib.import_module, "langsmith.run_helpers")
    base = importlib.import_module("langchain_core.callbacks").BaseCallbackHandler
    silent = type("SilentHandler", (base,), dict.fromkeys(_IGNORED, True))()
    with ExitStack() as stack:
        if langsmith.get_tracing_context()["enabled"] is None:
            stack.enter_context(langsmith.tracing_context(enabled=False))
        # A handler that hears nothing takes the place of the one that LangChain would make.
        _put(stack, context.tracing_v2_callback_var, silent)
        for variable, _, handler_class, name in getattr(context, "_configure_hooks", ()):
            if handler_class is not None and name is not None and _is_set(name):
                _put(stack, variable, silent)
        yield


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") not in _OFF


def _put(stack: ExitStack, variable: ContextVar[Any], handler: BaseCallbackHandler) -> None:
    """Set a variable of the context that is not set yet, until the stack ends."""
    if variable.get() is None:
        stack.callback(variable.reset, variable.set(handler))
