"""What a run of the workflow imports at its first use: imported once, by the process that is forked for each run."""

import importlib
from typing import Final

from ensemble_notebook.models.chat_completions import load_client

_MODULES: Final = (
    "ensemble_notebook.models.langchain.langchain_port",
    "ensemble_notebook.models.model_source",
    "ensemble_notebook.models.openai.chat_openai",
    "ensemble_notebook.models.openai.request_fields",
    "ensemble_notebook.models.recording.resumer",
    "ensemble_notebook.trace.store.store_file",
    "ensemble_notebook.trace.store.store_reader",
    "ensemble_notebook.trace.store.store_writer",
    "genai_prices.data",
    "genai_prices.data_units",
    "langchain_core.messages.block_translators.langchain_v0",
    "langchain_core.tools",
    "langchain_core.tracers.context",
    "langchain_core.tracers.langchain",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "openai.resources.chat.completions",
    "psutil",
    "rich.console",
    "tests.crash.workflow",
    "truststore",
)

load_client()
for name in _MODULES:
    importlib.import_module(name)
