"""Whether there may be a secret somewhere in much text, quickly (T7): what finds one for sure is `secrets.mask`.

Python has nothing that searches for fifty words at once; the regular expressions of pydantic-core, which are Rust's, do
so hundreds of times as fast. The text is JSON: what is searched for holds no character that JSON writes in another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache

from ensemble_notebook.domain.outputs.secrets import list_protected, list_signs


def make_secret_search() -> Callable[[bytes], bool]:
    """A function that tells whether a JSON text may hold what is masked now. It may say so where there is nothing."""
    return _make_search(list_protected())


@lru_cache(maxsize=8)
def _make_search(protected: tuple[str, ...]) -> Callable[[bytes], bool]:
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as cs

    values = [re.escape(json.dumps(value, ensure_ascii=False)[1:-1]) for value in protected]
    pattern = "|".join([*list_signs(), *values])
    text = cs.str_schema(pattern=pattern, regex_engine="rust-regex")
    return SchemaValidator(text).isinstance_python
