"""Asks once more, after all other callbacks of a model, whether its request may still be sent (E66).

A user's callback may take its time, keep the cancellation of a run that was stopped to itself, or block the event loop
meanwhile. LangChain calls those that run inline one by one, and then the others side by side, where a cancellation is
never lost: ours is one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ensemble_notebook.models.langchain.langchain_model import iterate_layers

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.runnables import RunnableConfig


def make_send_config(check: Callable[[], None]) -> RunnableConfig:
    """Make the configuration of a request for which `check` is called before it is sent, and which ends if that raises.

    Callbacks in the context of whoever runs are kept. Only for models with callbacks: without, nothing is between
    whoever asks and the sending, and to call one takes a fifth of what a request costs beside its network.
    """
    from langchain_core.runnables.config import merge_configs

    inherited = _find_inherited()
    own: RunnableConfig = {"callbacks": [_get_handler_class()(check)]}
    return {"callbacks": merge_configs({"callbacks": inherited}, own)["callbacks"]} if inherited else own


def has_listeners(model: Any) -> bool:
    """Whether somebody else hears of the requests of a model; True where that can't be told, as for a chain."""
    from langchain_core.globals import get_debug
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tracers import context

    if _find_inherited() or get_debug():
        return True
    for layer in iterate_layers(model):
        if any(getattr(layer, name, None) for name in ("callbacks", "config_factories", "verbose")):
            return True
        if (getattr(layer, "config", None) or {}).get("callbacks"):
            return True
    configured = getattr(context, "_configure_hooks", ())
    return not isinstance(layer, BaseChatModel) or any(variable.get() is not None for variable, *_ in configured)


def _find_inherited() -> Any:
    from langchain_core.runnables.config import var_child_runnable_config

    return (var_child_runnable_config.get() or {}).get("callbacks")


@cache
def _get_handler_class() -> Callable[[Callable[[], None]], AsyncCallbackHandler]:
    """Make the class at first use: LangChain is imported when a model is used, and not before."""
    from langchain_core.callbacks import AsyncCallbackHandler

    class SendCheck(AsyncCallbackHandler):
        """Hears of the start of a request, and of nothing else."""

        ignore_agent = ignore_chain = ignore_custom_event = ignore_retriever = ignore_retry = True

        def __init__(self, check: Callable[[], None]) -> None:
            self._check = check

        async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            """A request of a chat model is about to be sent."""
            self._check()

        async def on_llm_start(self, *_: Any, **__: Any) -> None:
            """A request of a model of another kind is, such as one inside a chain."""
            self._check()

    return SendCheck
