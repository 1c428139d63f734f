"""What a class or a hub sets for all runs of a kernel, read from its configuration and its environment (C122, C123).

`EnsembleMagics` has the traits; here is who has set one, and what its value means. A variable of the environment, which
a hub's spawner sets, goes before the files of configuration, which a person may have at home.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from traitlets.config import Application

from ensemble_notebook.domain.definitions.amounts import (
    CURRENCY,
    DOLLARS,
    AmountError,
    check_currency,
    read_budget,
    read_rate,
)
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.kernel_limits import AllowedModels
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.models.model_kinds import KINDS, list_forms, parse_spec

VARIABLE: Final = "ENSEMBLE_NOTEBOOK_"
OWNER: Final = "EnsembleMagics"
HERE: Final = f"%config {OWNER}"
"""Who has set what a notebook sets."""

_BUDGET_FORM: Final = "It is a text such as '$0.50, 20k tokens', or the fields of a Budget."
_RATE_FORM: Final = "It is a text such as '60/min', or the fields of a RateLimit."
_MODELS_FORM: Final = (
    "It is a list of model specs, in which * stands for anything, such as ['local', 'openai:gpt-4.1-*']."
)


def find_variable(trait: str) -> tuple[str, str] | None:
    """The variable of the environment that sets a trait, and its text; None where it is not set, or empty."""
    name = f"{VARIABLE}{trait.upper()}"
    text = os.environ.get(name, "").strip()
    return (name, text) if text else None


def find_setter(trait: str) -> str:
    """Who has set a trait before the extension was loaded: the file, where that can be told.

    Files of configuration are programs, and are not run again: the last one that names the trait is taken.
    """
    app = Application.instance() if Application.initialized() else None
    if trait in getattr(app, "cli_config", {}).get(OWNER, {}):
        return "the command line of the kernel"
    named = re.compile(rf"\b{OWNER}\b.*\b{trait}\b", re.DOTALL)
    for file in reversed(getattr(app, "loaded_config_files", ())):
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if named.search(text):
            return f"{trait} in {file}"
    return f"c.{OWNER}.{trait}"


def read_limit(trait: str, value: Any, set_by: str) -> Any:
    """What the value of a trait means, as `KernelLimits` has it.

    Raises:
        ValidationError: it can't be read; says what is wrong, and how it is written.
    """
    read, form = _READERS[trait]
    try:
        made = read(value)
    except AmountError as error:
        raise ValidationError(f"{set_by}: {error} {error.hint}") from None
    except ValidationError as error:
        raise ValidationError(f"{set_by}: {error.problems[0].message} {form}") from None
    except (TypeError, ValueError):
        raise ValidationError(f"{set_by}: {value!r} can't be read. {form}") from None
    if isinstance(made, Budget | RateLimit):
        made._set("set_by", set_by)
    return AllowedModels(made, set_by) if trait == "allowed_models" else made


def _read_fields(value: Any, read: Callable[[str], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields of a definition: of a mapping, of one that is written as JSON, or of a short text."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = json.loads(value)
    found = read(value) if isinstance(value, str) else value
    return {str(name): each for name, each in dict(found).items()}


def _read_budget(value: Any) -> Budget:
    if isinstance(value, Budget):
        return replace(value)  # so that nobody else has this object
    given = dict(_read_fields(value, read_budget))
    check_currency(given.pop(CURRENCY, DOLLARS), DOLLARS)
    return Budget(**given)


def _read_rate_limit(value: Any) -> RateLimit:
    if isinstance(value, RateLimit):
        return replace(value)
    return RateLimit(**_read_fields(value, read_rate))


def _read_models(value: Any) -> tuple[str, ...]:
    patterns = value.split(",") if isinstance(value, str) else value
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise TypeError
    named = tuple(each.strip() for each in patterns if each.strip())
    if not named:
        raise ValidationError("no model is named.")
    words = [word for kind in KINDS for word in kind.words]
    for each in named:
        word = each.partition(":")[0]
        if not re.search(r"[*?\[]", each):
            parse_spec(each)
        elif not re.search(r"[*?\[]", word) and word not in words:
            near = did_you_mean(word, words)
            raise ValidationError(f"{each!r} begins with no kind of model.{near} There are {list_forms()}.")
    return named


def _read_folder(value: Any) -> Path:
    folder = Path(value).expanduser()
    if not folder.is_absolute():
        raise ValidationError(f"{str(value)!r} is no whole path.")
    if not folder.is_dir():
        raise ValidationError(f"{folder} is no folder.")
    return folder


_READERS: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "cell_budget": (_read_budget, _BUDGET_FORM),
    "kernel_budget": (_read_budget, _BUDGET_FORM),
    "day_budget": (_read_budget, _BUDGET_FORM),
    "class_rate_limit": (_read_rate_limit, _RATE_FORM),
    "allowed_models": (_read_models, _MODELS_FORM),
    "recordings": (_read_folder, "It is the whole path of a folder that is there."),
}
LIMITS: Final = tuple(_READERS)
"""The traits that are limits of the kernel."""
