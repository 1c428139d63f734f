"""What the model specs stand for on this machine, for people (`jupyter ensemble models`)."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.local.weights_download import SMOLLM2, is_pulled
from ensemble_notebook.models.model_spec import OpenAISpec
from ensemble_notebook.models.openai.endpoint import resolve_endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecForm:
    """One form of spec.

    Attributes:
        spec: as it is written.
        meaning: what answers.
        is_ready: whether it could be used now.
        note: what it uses, or what is missing.
    """

    spec: str
    meaning: str
    is_ready: bool
    note: str


def describe_models() -> tuple[SpecForm, ...]:
    """Describe every form of spec, and what it comes to here. Opens nothing."""
    return (_describe_local(), _describe_openai(), *_OTHER_FORMS)


def _describe_local() -> SpecForm:
    has_weights = is_pulled()
    size = f"{SMOLLM2.size / 1e6:.0f} MB"
    note = f"weights in {SMOLLM2.path}" if has_weights else f"{size} are fetched once, at first use or by `models pull`"
    return SpecForm(spec="local", meaning=f"{SMOLLM2.model} in this process", is_ready=has_weights, note=note)


def _describe_openai() -> SpecForm:
    try:
        endpoint = resolve_endpoint(OpenAISpec("NAME"))
    except ValidationError as error:
        return SpecForm(spec="openai:NAME", meaning="a model of OpenAI", is_ready=False, note=str(error))
    key = f"key in {endpoint.key_variable}" if endpoint.key_variable else "without a key"
    where = endpoint.base_url or "OpenAI"
    return SpecForm(spec="openai:NAME", meaning=f"a model at {where}", is_ready=True, note=key)


_OTHER_FORMS = (
    SpecForm(
        spec="openai:NAME@URL",
        meaning="a model of any OpenAI-compatible server",
        is_ready=True,
        note="Ollama, vLLM, LM Studio, llama.cpp, ...",
    ),
    SpecForm(
        spec="local:PATH.gguf",
        meaning="other weights in this process",
        is_ready=True,
        note="any GGUF file that llama.cpp can run",
    ),
    SpecForm(spec="scripted", meaning="no model: an echo, labelled as such", is_ready=True, note="to try a cell with"),
)
