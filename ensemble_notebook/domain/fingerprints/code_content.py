"""The content of code: a function by its source, its defaults and what it reaches, a class by its members."""

from __future__ import annotations
import __future__

import ast
import dataclasses
import dis
import enum
import functools
import importlib.metadata
import importlib.util
import inspect
import linecache
import sys
import sysconfig
import typing
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property, partialmethod
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.content import (
    SCALARS,
    Child,
    Content,
    digest,
    encode_all,
    encode_name,
    encode_scalar,
)
from ensemble_notebook.domain.outputs.secrets import mask

_LONGEST_KEY: Final = 4_000
_ABSENT: Final = object()
_SLOTS: Final = (MemberDescriptorType, GetSetDescriptorType, type(inspect.FullArgSpec.args))
# What `functools.singledispatch` keeps of the calls that were made.
_CACHES: Final = frozenset({"dispatch_cache", "cache_token"})
_NAMES: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SILENT: Final = frozenset({"CACHE", "PUSH_NULL", "NOP"})


def describe_function(function: FunctionType) -> Content:
    """Describe a function: one of a package by name and version, any other by its code and all that it reaches."""
    module, code = function.__globals__.get("__name__"), function.__code__
    if not is_installed(module):
        children = [*_list_held(function), *_list_annotations(function), *_list_reached(function)]
        # The user's modules that it imports when it runs, as files: it may not have run yet.
        imports = b"".join(write_module(find_own_file(name)) for name in _find_imports(code))
        return Content(write_code(code) + imports, children, is_code=True)
    own = encode_name("function", module, code.co_qualname, find_version(str(module)))
    return Content(own, list(_list_held(function)) if "<locals>" in code.co_qualname else ())


def describe_module(module: ModuleType) -> Content:
    """Describe a module that is used as a whole."""
    if is_installed(module.__name__):
        return Content(encode_name("module", module.__name__, find_version(module.__name__)))
    return Content(encode_name("module", module.__name__) + write_module(getattr(module, "__file__", None)))


def hide_key(value: Any) -> Any:
    """The value, with everything that looks like a key masked: keys are not compared."""
    return mask(value) if type(value) is str and len(value) <= _LONGEST_KEY else value


def _list_held(function: FunctionType) -> Iterator[Child]:
    """The defaults of a function, and what it closes over."""
    code, defaults = function.__code__, function.__defaults__ or ()
    places = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    yield from ((name, hide_key(value)) for name, value in zip(places, defaults, strict=True))
    yield from ((name, hide_key(value)) for name, value in sorted((function.__kwdefaults__ or {}).items()))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            if not (name in _CACHES and function.__globals__.get("__name__") == "functools"):
                yield ("" if name == "__class__" else name), hide_key(cell.cell_contents)
        except ValueError:  # not filled yet
            continue


def _list_annotations(function: FunctionType) -> Iterator[Child]:
    """The types of its arguments, which models are told."""
    try:
        found = function.__annotations__  # from Python 3.14 on, they are looked up only now
        if any(isinstance(each, str) for each in found.values()):
            found = typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - names that nobody knows; the syntax tree has them as they are written
        return
    for _, each in sorted(found.items()):
        yield (getattr(each, "__name__", "") if isinstance(each, type) else ""), each


def _list_reached(function: FunctionType) -> Iterator[Child]:
    """The globals that the code reaches by name: variables of the notebook, and members of the user's modules."""
    for label, *rest in _find_chains(function.__code__):
        value: Any = function.__globals__.get(label, _ABSENT)
        if value is _ABSENT:  # a builtin, or nothing; the name is in the code
            continue
        for name in rest:
            if not isinstance(value, ModuleType) or is_installed(value.__name__):
                break
            value = inspect.getattr_static(value, name, None)
            label = f"{label}.{name}"
        yield label, hide_key(value)


@functools.lru_cache(maxsize=4_096)
def _find_chains(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The names of globals in some code, each with the attributes that are read from it."""
    found, chain = set(), []
    for each in dis.get_instructions(code):
        if each.opname in _NAMES:
            chain = [each.argval]
        elif each.opname in _ATTRIBUTES and chain:
            chain.append(each.argval)
        elif each.opname not in _SILENT:
            chain = []
        if chain:
            found.discard(tuple(chain[:-1]))
            found.add(tuple(chain))
    return tuple(sorted(found.union(*map(_find_chains, _list_inner(code)))))


@functools.lru_cache(maxsize=4_096)
def _find_imports(code: CodeType) -> tuple[str, ...]:
    """The modules that are imported inside some code."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"}
    return tuple(sorted(found.union(*map(_find_imports, _list_inner(code)))))


def _list_inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


# Installed packages are compared by name and version; all else is the user's own code.
_OUR_PACKAGE: Final = __name__.partition(".")[0]
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
_FOLDERS: Final = tuple(
    str(Path(folder).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (folder := sysconfig.get_paths().get(name))
)


def is_installed(module: Any) -> bool:
    """Whether a module belongs to Python, to an installed package or to this one. Packages under development do not."""
    if not isinstance(module, str) or module == "__main__":
        return False
    root = module.partition(".")[0]
    if root == _OUR_PACKAGE or root in sys.stdlib_module_names:
        return True
    found = sys.modules.get(module) or sys.modules.get(root)
    file = getattr(found, "__file__", None)
    if file is None:  # of a compiled package, or a notebook's own that was made by hand
        return getattr(found, "__spec__", None) is not None
    return _is_in_installation(file)


@functools.lru_cache(maxsize=4_096)
def _is_in_installation(file: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(file).parts) or str(Path(file).resolve()).startswith(_FOLDERS)


@functools.cache
def find_version(module: str) -> str:
    """Find the version of the package of a module; empty for the standard library."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        return ""
    try:
        return importlib.metadata.version(root)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return str(getattr(sys.modules.get(root), "__version__", ""))


def find_by_name(module: Any, qualname: str) -> Any:
    """Find what a loaded module has under a qualified name; None where it has nothing."""
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def find_own_file(module: str) -> str | None:
    """Find the file of a user's module, loaded or not. Imports nothing, so for a package only its root is found."""
    if is_installed(module):
        return None
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    file = None if spec is None or not spec.has_location else spec.origin
    return None if file is None or _is_in_installation(file) else file


# --- The source of a function as a syntax tree, without comments, layout, positions, and the function's own name ------
#
# The source is verified: it is compiled, and must give the very code object. A file edited after it was imported, a
# cell that was replaced, or code made by `exec` fails this check and is compared by its bytecode.


_FUTURES: Final = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)


def write_code(code: CodeType) -> bytes:
    """Write the code of a function: its syntax tree, or its bytecode if no source gives this code."""
    name, flags = code.co_filename, code.co_flags & _FUTURES
    # The second time for a file that was read into the cache before it was edited, and loaded again.
    for refresh in (False, True):
        if refresh:
            linecache.checkcache(name)
        text = "".join(linecache.getlines(name))
        if text and (tree := _read_functions(text, flags).get(code)) is not None:
            return b"tree " + tree
    return b"bytecode " + _write_bytecode(code)


@functools.lru_cache(maxsize=512)
def _read_functions(text: str, flags: int) -> Mapping[CodeType, bytes]:
    """The functions of a text: the code objects that they compile to, each with its syntax tree."""
    try:
        with warnings.catch_warnings(action="ignore"):  # they were shown when the text was executed
            tree = ast.parse(text)
            made = compile(text, "<text>", "exec", flags=flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    by_place: dict[Any, list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            by_place.setdefault((getattr(node, "name", "<lambda>"), first), []).append(node)
    found = {}
    for code in _iterate_code(made):
        nodes = by_place.get((code.co_name, code.co_firstlineno), [])
        if len(nodes) > 1:  # several on one line are told apart by where their bodies stand
            places = set(code.co_positions())
            bodies = [(each.body if isinstance(each, ast.Lambda) else each.body[-1], each) for each in nodes]
            nodes = [
                each
                for body, each in bodies
                if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places
            ]
        if len(nodes) == 1:
            text = _dump(nodes[0])
            if not isinstance(nodes[0], ast.Lambda):  # what it is called is the caller's business
                text = text.replace(f"(name={nodes[0].name!r}, ", "(", 1)
            found[code] = digest(text.encode("utf-8", "surrogatepass"))
    return found


def _dump(node: Any) -> str:
    """Write a syntax tree as ``ast.dump`` of Python 3.11 does: the same text under every version, also of older keys.

    From 3.12 on, functions and classes have type parameters, and 3.12 has empty texts in nested formats of f-strings;
    from 3.13 on, ``ast.dump`` leaves out empty lists.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    shown = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(node, ast.JoinedStr):
            value = [each for each in node.values if not (isinstance(each, ast.Constant) and each.value == "")]
        # A constant, or what is matched, may be None itself.
        is_left_out = value is None and not (name == "value" and isinstance(node, ast.Constant | ast.MatchSingleton))
        if not is_left_out and not (name == "type_params" and not value):
            shown.append(f"{name}={_dump(value)}")
    return f"{type(node).__name__}({', '.join(shown)})"


def write_module(file: str | None) -> bytes:
    """Write the file of a module as a syntax tree; nothing where there is none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return b"" if file is None else digest(_dump(ast.parse(Path(file).read_bytes())).encode())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return b""


def _iterate_code(code: CodeType) -> Iterator[CodeType]:
    for each in _list_inner(code):
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


# What is called otherwise than under Python 3.11.
_RENAMED: Final = {"pathlib._local": "pathlib", "_TypedCacheSpecialForm": "_LiteralSpecialForm"}
METHODS: Final = (FunctionType, classmethod, staticmethod, property, cached_property, partialmethod)
# What a field of pydantic tells a model, or does to a value.
_FIELD_FACTS: Final = ("annotation", "default", "default_factory", "alias", "title", "description", "metadata")


def encode_class(word: str, cls: type, *more: object) -> bytes:
    """Encode the name of a class of a package, by what Python 3.11 calls it."""
    names = (_RENAMED.get(each, each) for each in (cls.__module__, cls.__qualname__))
    return encode_name(word, *names, *more)


def describe_class(cls: type) -> Content:
    """Describe a class: one of a package by name and version, any other by its content."""
    if is_installed(cls.__module__) and find_by_name(cls.__module__, cls.__qualname__) is cls:
        return Content(encode_class("class", cls, find_version(cls.__module__)))
    children: list[Child] = [("", each) for each in (type(cls), *cls.__bases__)]
    if issubclass(cls, enum.Enum):
        children += [("", {name: each.value for name, each in cls.__members__.items()})]
    else:
        children += _list_values(cls)
    # The methods that the user wrote. What Python adds differs from version to version, and follows from the rest.
    for name, value in sorted(vars(cls).items()):
        if isinstance(value, METHODS) and not _is_made_by_python(cls, name, value):
            is_of_enum = name == "_generate_next_value_"  # which an enum wraps from Python 3.12 on
            children.append((name, value.__func__ if is_of_enum and isinstance(value, staticmethod) else value))
    doc = cls.__doc__ or ""
    # The signature, as dataclasses write it, with the addresses of defaults; and what some versions say of NoneType.
    if doc.startswith(f"{cls.__name__}(") or cls.__module__ == "builtins":
        doc = ""
    return Content(encode_name("class", cls.__name__, inspect.cleandoc(doc)), children, is_code=True)


def list_pydantic_fields(cls: type) -> Mapping[str, Any]:
    """List the fields of a pydantic model; none of any other class."""
    if not callable(getattr(cls, "model_validate", None)):
        return {}
    fields = getattr(cls, "__pydantic_fields__", None) or getattr(cls, "model_fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _is_made_by_python(cls: type, name: str, value: Any) -> bool:
    """Whether a method was made for a dataclass, a named tuple or a protocol."""
    inner = inspect.unwrap(getattr(value, "__func__", value))  # a repr that knows rings wraps the one that was made
    if not isinstance(inner, FunctionType):
        return False
    module, file = inner.__globals__.get("__name__"), inner.__code__.co_filename
    if "__dataclass_fields__" in vars(cls):
        return file == "<string>" or (module == "dataclasses" and name == "__replace__")
    if "_field_defaults" in vars(cls):
        return module == "collections" or str(module).startswith("namedtuple_")
    return module == "typing" and name == "__subclasshook__"


def _list_values(cls: type) -> Iterator[Child]:
    """The attributes of the class beside methods: plain values, and fields with their types and defaults."""
    fields = list_pydantic_fields(cls)
    for name, value in sorted(vars(cls).items()):
        is_machinery = name.startswith("_abc_") or (name.startswith("__") and name.endswith("__"))
        if not (is_machinery or name in fields or isinstance(value, (*METHODS, *_SLOTS))):
            yield f".{name}", hide_key(value)
    for name, field in sorted(fields.items()):
        yield f".{name}", {fact: getattr(field, fact, None) for fact in _FIELD_FACTS}
        yield f".{name}", getattr(field, "json_schema_extra", None)
    for name, field in sorted(vars(cls).get("__dataclass_fields__", {}).items()):
        is_required = field.default is field.default_factory is dataclasses.MISSING
        yield f".{name}", (is_required, field.kw_only, dict(field.metadata))
        yield f".{name}", None if is_required else (field.default, field.default_factory)
    if not fields:
        yield "", _read_types(cls)
    if typing.is_typeddict(cls) or hasattr(cls, "__required_keys__"):
        yield "", (cls.__total__, cls.__required_keys__)  # type: ignore[attr-defined]


def _read_types(cls: type) -> Mapping[str, Any]:
    """The types that the class gives its fields."""
    found = inspect.get_annotations(cls)
    if any(isinstance(each, str) for each in found.values()):
        try:
            known = typing.get_type_hints(cls, include_extras=True)
        except Exception:  # noqa: BLE001 - names that nobody knows; then their texts count
            return found
        return {name: known.get(name, each) for name, each in found.items()}
    return found
