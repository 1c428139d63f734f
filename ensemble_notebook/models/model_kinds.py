"""The kinds of model specs, one line each, and what a text or mapping that names a model is read as.

What specs may be stands in docs/contract/engine.md#models. Whatever lists kinds or forms, for people or machines, has
them from `KINDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ensemble_notebook.domain.definitions.limits import COST, find_rates
from ensemble_notebook.domain.kernel_limits import kernel_limits
from ensemble_notebook.domain.outputs.secrets import has_secret, mask
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean, find_nearest
from ensemble_notebook.models.local_spec import LocalSpec
from ensemble_notebook.models.model_spec import (
    PARAMETERS,
    ModelIdentity,
    ModelSpec,
    SpecForm,
    check_parameter,
    make_spec_error,
    read_parameters,
)
from ensemble_notebook.models.openai_spec import OpenAISpec, check_url
from ensemble_notebook.models.provider_spec import ProviderSpec
from ensemble_notebook.models.scripted_spec import ScriptedSpec

KINDS: Final[tuple[type[ModelSpec], ...]] = (
    LocalSpec,
    OpenAISpec,
    ScriptedSpec,
    ProviderSpec,
)

FIELDS: Final = ("model", "base_url", "api_key_env", COST, *PARAMETERS)
"""What a spec mapping may have."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Any other one may hold what is no model's business, and would be sent to whatever host a cell names.
_KEY_NAME: Final = re.compile(r"(?:.*_)?(?:KEY|TOKEN)", re.IGNORECASE)


def list_forms() -> str:
    """List all forms, as messages do: ``local, local:PATH.gguf, openai:NAME, ...``."""
    return ", ".join(form for kind in KINDS for form in kind.forms)


def list_short_forms() -> str:
    """List the first form of each kind that is proposed to whoever has a real question: ``local, openai:NAME``."""
    return ", ".join(kind.forms[0] for kind in KINDS if kind.examples and kind.answers)


def list_bare_words() -> tuple[str, ...]:
    """List the specs that are one word, which a variable of that name would hide."""
    return tuple(form for kind in KINDS for form in kind.forms if ":" not in form)


def list_named_words() -> tuple[str, ...]:
    """List the words behind which the name of a model stands, as in ``openai:NAME``."""
    named = (kind for kind in KINDS if any(form.endswith(":NAME") for form in kind.forms))
    return tuple(word for kind in named for word in kind.words)


def list_examples() -> tuple[str, ...]:
    """List the specs to propose."""
    return tuple(example for kind in KINDS for example in kind.examples)


def guess_spec(text: str) -> str | None:
    """Guess in a sentence what a text that is no spec was meant for; None where nobody can."""
    return next(filter(None, (kind.guess(text) for kind in KINDS)), None)


def calls_no_tools(llm: Any) -> bool:
    """Whether it is known beforehand that the model of a spec text calls no tools."""
    kind = _find_kind(llm.partition(":")[0].strip()) if isinstance(llm, str) else None
    return kind is not None and not kind.calls_tools


def describe_models() -> tuple[SpecForm, ...]:
    """Describe every form of spec, and what it comes to here (``jupyter ensemble models``). Opens nothing."""
    return tuple(form for kind in KINDS for form in kind.describe())


def identify_model(llm: Any) -> ModelIdentity:
    """Tell the identity of a model object or spec, without opening anything.

    Raises:
        ValidationError: the spec names no model, or the variable with its key is not set.
    """
    if isinstance(llm, str | Mapping):
        return parse_spec(llm).identify(read_parameters(llm))
    from ensemble_notebook.models.langchain import langchain_model

    core = langchain_model.find_core_model(llm)
    name, provider = langchain_model.find_model_name(core), langchain_model.find_provider(core)
    return ModelIdentity(name, provider, langchain_model.find_max_tokens(llm))


def check_allowed(llm: Any) -> None:
    """Check that a model object or spec may be asked in this kernel (E142); scripts always may.

    Raises:
        ValidationError: it may not, or the spec names no model.
    """
    if (allowed := kernel_limits.allowed_models) is None:
        return
    if isinstance(llm, str | Mapping):
        spec = parse_spec(llm)
        is_script, name = isinstance(spec, ScriptedSpec), spec.text
    else:
        from ensemble_notebook.models.langchain import langchain_model

        core = langchain_model.find_core_model(llm)
        provider = langchain_model.find_provider(core) or type(core).__name__
        is_script, name = langchain_model.is_scripted(core), f"{provider}:{langchain_model.find_model_name(core)}"
    if not is_script and (fault := allowed.find_fault(name)):
        raise make_spec_error(fault)


def to_recorded_name(llm: Any) -> str:
    """Convert a model object or spec to its name in a recording: the same on each machine, without keys."""
    if isinstance(llm, str | Mapping):
        name, parameters = parse_spec(llm).text, read_parameters(llm)
        # Its replies are others with other parameters, also to the same prompt. How a schema is given is in the
        # request.
        return mask(f"{name} {json.dumps(dict(parameters.settings), default=str)}") if parameters.settings else name
    from ensemble_notebook.models.langchain.langchain_model import find_core_model, find_model_name

    core = find_core_model(llm)
    return mask(f"{type(core).__name__} {find_model_name(core)}")


def parse_spec(spec: str | Mapping[str, Any]) -> ModelSpec:
    """Read a spec text, or a mapping with ``model``, of which `read_parameters` reads the parameters.

    Raises:
        ValidationError: it names no model; says what was meant, where that can be guessed.
    """
    if isinstance(spec, Mapping):
        return _parse_mapping(spec)
    text = spec.strip()
    _refuse_key(text)
    word, colon, rest = text.partition(":")
    kind = _find_kind(word)
    found = None if kind is None else kind.read(word, rest.strip() if colon else None)
    if found is None:
        if guess := guess_spec(text):
            hint = f" {guess}"
        else:
            hint = _suggest_spec(word, rest) if kind is None else _suggest_form(kind, word, rest)
        raise make_spec_error(f"{text!r} names no model.{hint}")
    return found


def _find_kind(word: str) -> type[ModelSpec] | None:
    return next((kind for kind in KINDS if word in kind.words), None)


def _parse_mapping(spec: Mapping[str, Any]) -> ModelSpec:
    for name, value in spec.items():
        _check_field(name, value)
    if "model" not in spec:
        raise make_spec_error("A model needs its name: model: NAME.", "model")
    name, url, variable = spec["model"].strip(), spec.get("base_url"), spec.get("api_key_env")
    if variable is not None and (has_secret(variable) or not _VARIABLE.fullmatch(variable)):
        message = "api_key_env is the name of an environment variable, such as OPENAI_API_KEY; no key."
        raise make_spec_error(message, "api_key_env")
    if variable is not None and not _KEY_NAME.fullmatch(variable):
        message = (
            f"api_key_env names a variable with a key, which ends in _KEY or _TOKEN, and {variable!r} does not: put "
        )
        message += "the key into such a variable."
        raise make_spec_error(message, "api_key_env")
    if url is not None:  # whatever the name is there
        return OpenAISpec(name, check_url(url.strip(), item="base_url"), variable)
    found = _parse_name(name)
    taken = PARAMETERS if found.parameters is None else found.parameters
    useless = next((each for each in PARAMETERS if spec.get(each) is not None and each not in taken), None)
    if useless is not None:
        message = f"The model {found.text!r} is none, and takes no {useless}."
        if taken:
            message = f"A spec of the form {found.forms[0]} takes no {useless}; it takes {', '.join(taken)}. For more, "
            message += "make the chat model in the notebook, and name its variable."
        raise make_spec_error(message, useless)
    return found if variable is None else found.with_key_variable(variable)


def _check_field(name: Any, value: Any) -> None:
    if name not in FIELDS:
        _refuse_field(str(name))
    if value is None and name != "model":
        return
    if name in PARAMETERS:
        _refuse_key(repr(value), name)
        check_parameter(name, value)
        return
    if name == COST:
        try:
            find_rates({COST: value}, None)
        except ValidationError as error:
            raise make_spec_error(f"The price of a model: {error.problems[0].message}", COST) from None
        return
    if not isinstance(value, str) or not value.strip():
        raise make_spec_error(f"The {name} of a model must be text, got {type(value).__name__}.", name)
    if name != "api_key_env":
        _refuse_key(value, name)


def _parse_name(name: str) -> ModelSpec:
    """Read what names a model without an address: a spec, or a bare name, which OpenAI's server knows."""
    if _find_kind(name.partition(":")[0].strip()) is None:
        return OpenAISpec(name)
    try:
        return parse_spec(name)
    except ValidationError as error:
        raise ValidationError([Problem(each.message, field="llm", item="model") for each in error.problems]) from None


def _refuse_field(name: str) -> NoReturn:
    if re.search(r"key|token|secret|password", name, re.IGNORECASE) and find_nearest(name, ["api_key_env"]) != name:
        raise make_spec_error(
            f"A model has no {name!r}: keys come from the environment only. Put the key into a variable before you "
            f"start, and name the variable: api_key_env: NAME.",
            name,
        )
    raise make_spec_error(f"A model has no {name!r}.{did_you_mean(name, FIELDS)}", name)


def _refuse_key(text: str, item: str | None = None) -> None:
    if has_secret(text):
        message = (
            f"{mask(text)!r} holds what looks like a key. Keys come from the environment only, since cells are saved "
            f"and shared: set OPENAI_API_KEY, or name another variable with api_key_env."
        )
        raise make_spec_error(message, item)


def _suggest_spec(word: str, rest: str) -> str:
    """Suggest what somebody who wrote this was probably after."""
    meant = find_nearest(word, [each for kind in KINDS for each in kind.words])
    kind = None if meant is None else _find_kind(meant)
    if kind is None or meant is None:
        return f" Write one of {list_forms()}, or the name of a notebook variable that holds a chat model."
    return _suggest_form(kind, meant, rest)


def _suggest_form(kind: type[ModelSpec], word: str, rest: str) -> str:
    if word in list_named_words():
        return f" Did you mean '{word}:{rest or 'NAME'}'?"
    takes_more = any(":" in form for form in kind.forms)
    return f" Did you mean '{word}{':' + rest if takes_more and rest else ''}'?"
