"""Reading a cell: its text in, a `Cell` or all its mistakes at once out (C10, C12).

Nothing is evaluated, imported or called, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.cell.binding.ensemble_builder import EnsembleBuilder
from ensemble_notebook.cell.binding.inputs import TemplateText, collect_templates, find_inputs
from ensemble_notebook.cell.binding.name_resolver import NameResolver
from ensemble_notebook.cell.cell import Cell
from ensemble_notebook.cell.language import cell_schema
from ensemble_notebook.cell.language.amounts import is_amount
from ensemble_notebook.cell.reading.member_reader import read_section
from ensemble_notebook.cell.reading.part_reader import read_limit
from ensemble_notebook.cell.reading.sections import KeyValue, Section
from ensemble_notebook.cell.text.mistakes import MistakeReport
from ensemble_notebook.cell.text.source_text import OPTIONS, Place, SourceText
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.cell.text.yaml_tree import read_tree
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.outputs.secrets import has_secret, mask, protect_environment

_OVERRIDES: Final = ("llm", "workflow", "max_concurrency", "error_strategy", "capture_mode", "budget", "name")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def read_cell(
    text: str,
    namespace: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] = _NOTHING,
    default_llm: str | None = None,
    needs_inputs: bool = True,
) -> Cell:
    """Read the body of a cell.

    Args:
        text: the body, without the line of the options.
        namespace: the notebook's variables; None where they are not known: then names are taken on trust.
        overrides: from the options: ``llm``, ``workflow``, ``max_concurrency``, ``error_strategy``, ``capture_mode``,
            ``budget`` (a text) and ``name`` stand in place of the cell's; ``inputs`` is a mapping that goes before
            the cell's (C7).
        default_llm: the model where neither the cell nor the options name one.
        needs_inputs: False where a cell is defined and not run: then variables may lack a value.

    Raises:
        CellError: with every mistake and its place.
    """
    report = MistakeReport(SourceText(text))
    with report:
        _refuse_keys(report, overrides)
        top = read_section(read_tree(report), report)
        if top is not None:
            if default_llm and "llm" not in top.key_values and "llm" not in overrides:
                overrides = {**overrides, "llm": default_llm}
            _apply_overrides(top, overrides)
            inputs = find_inputs(
                _collect_templates(top), top, overrides.get("inputs", {}), namespace, report, is_strict=needs_inputs
            )
            assembly = EnsembleBuilder(top, NameResolver(namespace), inputs.values, report)
            definition, graph = assembly.make(EnsembleDefinition)
    assert top is not None
    assert graph is not None
    return Cell(
        definition=definition,
        graph=graph,
        inputs=MappingProxyType(inputs.values),
        variables=inputs.variables,
        missing=inputs.missing,
        notices=tuple(report.notices),
        warnings=assembly.warnings,
        _source=report.source,
        _section=top,
        _namespace=namespace,
    )


def _refuse_keys(report: MistakeReport, overrides: Mapping[str, Any]) -> None:
    """No key may stand in a cell, wherever in it: cells are saved and shared (docs/contract/engine.md#models)."""
    message = "this looks like a key, and keys never stand in a cell: cells are saved and shared."
    hint = (
        "Put it into an environment variable before you start: OPENAI_API_KEY, or another one named by `api_key_env`. "
        "An address with user and password counts, too: make the model in Python and name its variable in `llm`."
    )
    protect_environment()
    for place in _find_keys(report.source):
        report.add_mistake(place, message, hint)
    for given in (*overrides.values(), *overrides.get("inputs", {}).values()):
        if isinstance(given, str) and has_secret(given):
            report.add_mistake(OPTIONS, message, hint)


def _find_keys(source: SourceText) -> Iterator[Place]:
    if not has_secret(source.text):
        return
    found = [line for line in range(1, source.line_count + 1) if has_secret(source.line(line))]
    for line in found:
        text, masked = source.line(line), mask(source.line(line))
        start = _count_equal_start(text, masked)
        end = len(text) - _count_equal_start(text[:start:-1], masked[:start:-1])
        yield source.locate(source.line_start(line) + start, source.line_start(line) + end)
    if not found:  # a key over several lines
        yield source.locate(_count_equal_start(source.text, mask(source.text)))


def _count_equal_start(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _apply_overrides(top: Section, overrides: Mapping[str, Any]) -> None:
    """Put the values of the options in place of the cell's."""
    for name in _OVERRIDES:
        if name not in overrides:
            continue
        given = overrides[name]
        node = ScalarNode(0, 0, OPTIONS, str(given), is_plain=False)
        top.key_values[name] = KeyValue(OPTIONS, node)
        top.values[name] = _read_option(name, given, node)


def _read_option(name: str, given: Any, node: ScalarNode) -> Any:
    """The value of an option, as the reader of the cell would have left it."""
    if not isinstance(given, str):
        return given
    if name == "budget" and is_amount(given):
        return read_limit(node, "--budget", cell_schema.BUDGET)
    return node if name in ("llm", "budget") else given


def _collect_templates(top: Section) -> list[TemplateText]:
    """Every text of the cell that may hold variables, agents' first."""
    sections = list(top.walk())
    agents = [section for section in sections if section.schema is cell_schema.AGENT]
    tasks = [section for section in sections if section.schema is cell_schema.TASK]
    return [
        *collect_templates(agents, cell_schema.AGENT.template_keys),
        *collect_templates(tasks, cell_schema.TASK.template_keys),
    ]
