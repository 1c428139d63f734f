"""The source of a function as a syntax tree, without comments, layout, positions, and the function's own name.

The source is verified: it is compiled, and must give the very code object. A file edited after it was imported, a cell
that was replaced, or code made by `exec` fails this check and is compared by its bytecode.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.content import SCALARS, digest, encode_all, encode_scalar

_FUTURES: Final = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def write_code(code: CodeType) -> bytes:
    """Write the code of a function: its syntax tree, or its bytecode if no source gives this code."""
    if (tree := _find_tree(code)) is not None:
        return b"tree " + tree
    return b"bytecode " + _write_bytecode(code)


def _find_tree(code: CodeType) -> bytes | None:
    name, flags = code.co_filename, code.co_flags & _FUTURES
    # The second time for a file that was read into the cache before it was edited, and loaded again.
    for refresh in (False, True):
        if refresh:
            linecache.checkcache(name)
        text = "".join(linecache.getlines(name))
        if text and (tree := _read_functions(text, flags).get(code)) is not None:
            return tree
    return None


@functools.lru_cache(maxsize=512)
def _read_functions(text: str, flags: int) -> Mapping[CodeType, bytes]:
    """The functions of a text: the code objects that they compile to, each with its syntax tree."""
    try:
        with warnings.catch_warnings(action="ignore"):  # they were shown when the text was executed
            tree = ast.parse(text)
            made = compile(text, "<text>", "exec", flags=flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    by_place: dict[Any, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            by_place.setdefault(_get_place(node), []).append(node)
    found = {}
    for code in _iterate_code(made):
        nodes = by_place.get((code.co_name, code.co_firstlineno), [])
        if len(nodes) > 1:  # several on one line are told apart by where their bodies stand
            places = set(code.co_positions())
            nodes = [node for node in nodes if _get_body_place(node) in places]
        if len(nodes) == 1:
            found[code] = _write_tree(nodes[0])
    return found


def _get_place(node: Any) -> tuple[str, int]:
    decorators = getattr(node, "decorator_list", ())
    return getattr(node, "name", "<lambda>"), min([node.lineno, *(each.lineno for each in decorators)])


def _get_body_place(node: Any) -> tuple[int | None, ...]:
    body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    return body.lineno, body.end_lineno, body.col_offset, body.end_col_offset


def _write_tree(node: Any) -> bytes:
    text = ast.dump(node)
    if not isinstance(node, ast.Lambda):  # what it is called is the caller's business
        text = text.replace(f"(name={node.name!r}, ", "(", 1)
    return digest(text.encode("utf-8", "surrogatepass"))


def write_module(file: str | None) -> bytes:
    """Write the file of a module as a syntax tree; nothing where there is none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return b"" if file is None else digest(ast.dump(ast.parse(Path(file).read_bytes())).encode())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return b""


def _iterate_code(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _iterate_code(each)


def _write_bytecode(code: CodeType) -> bytes:
    facts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    pieces = [code.co_code, code.co_exceptiontable, repr(facts).encode(), repr(names).encode()]
    return digest(*pieces, *(_write_constant(each) for each in code.co_consts))


def _write_constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return _write_bytecode(value)
    if type(value) in SCALARS:
        return encode_scalar(value)
    written = [_write_constant(each) for each in value]
    return digest(
        *(sorted(written) if isinstance(value, frozenset) else written), encode_all([type(value).__name__], [])
    )
