"""Reading a cell, from the notebook, a file or a text: a `Cell`, or all its mistakes at once (C10, C12, C32).

Nothing is evaluated, imported or called, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.binding.ensemble_builder import EnsembleBuilder
from ensemble_notebook.cell.binding.inputs import (
    InputFinder,
    find_continued,
)
from ensemble_notebook.cell.binding.name_resolver import NameResolver
from ensemble_notebook.cell.object_names import remember_names
from ensemble_notebook.cell.reading.mistakes import (
    MisreadError,
    MistakeReport,
    Notice,
    join_names,
    quote,
    suggest_name,
    to_cell_words,
)
from ensemble_notebook.cell.reading.options import MAGIC, Options, parse_options
from ensemble_notebook.cell.reading.section_reader import lay_over, read_limit, read_section
from ensemble_notebook.cell.reading.sections import KeyValue, Section
from ensemble_notebook.cell.reading.source_text import OPTIONS, SourceText, read_text_file
from ensemble_notebook.cell.reading.yaml_nodes import Node, ScalarNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.domain.definitions.amounts import is_amount
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.outputs.secrets import has_secret, mask, protect_environment
from ensemble_notebook.domain.planning.ensemble_rules import list_known_items
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlanPreview, list_tools, make_plan
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.cell.binding.scorer_binder import CellScorers
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
    from ensemble_notebook.ensemble.ensemble import Ensemble


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """What a cell says.

    Attributes:
        definition: everything but the objects behind dotted names, which are imported by `build` only.
        graph: of the definition.
        inputs: the values of its template variables, first found of options, ``inputs:`` and the notebook.
        variables: the names of its template variables, in order of appearance.
        missing: those without a value; empty unless it was read with ``needs_inputs=False``.
        notices: what a person should know before it runs.
        continued: the output of the run that this one goes on with; None where it begins afresh.
        scorers: what scores its runs; None where nothing does.
        warnings: what is odd about the ensemble as a whole; a run says it by itself.
    """

    definition: EnsembleDefinition
    graph: Graph
    inputs: Mapping[str, Any]
    variables: tuple[str, ...]
    missing: tuple[str, ...]
    notices: tuple[Notice, ...]
    warnings: tuple[str, ...]
    continued: Any
    scorers: CellScorers | None
    _source: SourceText
    _section: Section
    _namespace: Mapping[str, Any] | None
    _has_names: bool

    @property
    def plan(self) -> ExecutionPlan:
        """What a run would do. Imports and calls nothing."""
        plan = make_plan(self.graph, self.inputs, list_known_items(self.graph, self.inputs))
        from ensemble_notebook.ensemble.run_preparation import list_gate_warnings

        warnings = list_gate_warnings(self.definition, self.graph)
        return replace(plan, preview=PlanPreview(tools=list_tools(plan, self.graph), warnings=warnings))

    def estimate(self, name: str | None = None) -> CostEstimate | None:
        """What a run would take; None where nobody can tell without importing what the cell names.

        Args:
            name: of the variable that the output is bound to, which its earlier runs are remembered under.
        """
        from ensemble_notebook.ensemble.cost_estimation import estimate, find_usual_replies

        definition = self.definition
        try:
            items = list_known_items(self.graph, self.inputs)
            replies = find_usual_replies(definition.name or name, self.graph)
            found = estimate(definition, self.graph, self.inputs, datetime.now(UTC), items, replies)
            if self.scorers is None:
                return found
            from ensemble_notebook.ensemble.many_runs.map_estimate import add_judges

            return add_judges(found, self.scorers.score, self.scorers.expected, self.inputs)
        except Exception:  # noqa: BLE001 - what stands for an object that is not imported has no schema; or no key is set
            return None

    def list_refusals(self, *, is_map: bool = False) -> list[str]:
        """Why its budget or the kernel's would have a run refused: models without a known price (E36), or not allowed.

        Args:
            is_map: whether it runs for rows, of which the judges are paid from the budget, too.
        """
        from ensemble_notebook.domain.kernel_limits import kernel_limits
        from ensemble_notebook.ensemble import run_checks

        problems = [
            *run_checks.find_price_problems(self.definition, self.graph),
            *run_checks.find_kernel_price_problems(self.definition, self.graph, kernel_limits.budgets),
            *run_checks.find_forbidden_models(self.definition, self.graph),
        ]
        if is_map and self.scorers is not None:
            from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings

            scorers = MapSettings(score=self.scorers.score).scorers
            problems += run_checks.find_judge_price_problems(self.definition, scorers)
        return [to_cell_words(each.message) for each in problems]

    def build(self, namespace: Mapping[str, Any] | None = None) -> Ensemble:
        """The ensemble that runs; the only place where a cell's dotted names are imported.

        Args:
            namespace: the notebook's variables; without it, those that the cell was read with.

        Raises:
            CellError: a name can't be imported, or names something that does not fit.
        """
        from ensemble_notebook.ensemble.ensemble import Ensemble

        if not self._has_names:  # the definition has no stand-ins, and a large one takes a while to make again
            fields = get_field_names(EnsembleDefinition)
            return Ensemble(**{name: getattr(self.definition, name) for name in fields})
        report = MistakeReport(self._source)
        names = self._namespace if namespace is None else namespace
        with report:
            resolver = NameResolver(names, imports=True)
            ensemble, _ = EnsembleBuilder(self._section, resolver, self.inputs, report).make(Ensemble)
        if names is not None:
            remember_names(ensemble, names)
        return ensemble


_OVERRIDES: Final = ("llm", "workflow", "max_concurrency", "error_strategy", "capture_mode", "budget", "name")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def read_cell(
    text: str,
    namespace: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] = _NOTHING,
    default_llm: str | None = None,
    default_by: str = "EnsembleMagics.llm",
    needs_inputs: bool = True,
    is_dry_run: bool = False,
    continue_from: str | None = None,
    columns: Collection[str] = (),
    file: CellFile | None = None,
    line: str = "",
    only: str | None = None,
    scores: Sequence[str] = (),
    expected: str | None = None,
    varied: Collection[str] = (),
    option_fault: str = "",
    tree: Node | None = None,
) -> Cell:
    """Read the body of a cell.

    Args:
        text: the body, without the line of the options.
        namespace: the notebook's variables; None where they are not known: then names are taken on trust.
        overrides: from the options: ``llm``, ``workflow``, ``max_concurrency``, ``error_strategy``, ``capture_mode``,
            ``budget`` (a text) and ``name`` stand in place of the cell's; ``inputs`` is a mapping that goes before
            the cell's.
        default_llm: the model where neither the cell nor the options name one.
        default_by: who has set it.
        continue_from: the variable that holds the output of the run, or the prompt, that this one goes on with.
        needs_inputs: False where a cell is defined and not run: then variables may lack a value.
        is_dry_run: whether it is told which variables lack one; those that are misspelt are mistakes.
        columns: of the rows that it is run for, which give values to the variables that are called like them.
        file: the text that the cell builds on: its keys hold where the body does not have them.
        line: the options as they were typed, to show what is wrong in them.
        only: the one task that is to run.
        scores: what is to score its runs, each ``[NAME=]SCORER``.
        expected: the column of what a run should come to.
        varied: what variants change; none: there is one.
        option_fault: what is wrong with the options; told before the mistakes of the body.
        tree: what the body was read as, where somebody has read it without a mistake; None: it is read here.

    Raises:
        CellError: with every mistake and its place.
    """
    source = SourceText(text, options=line) if file is None else SourceText(text, file.body, file.name, options=line)
    report = MistakeReport(source)
    scorers = None
    with report:
        if option_fault:
            report.add_mistake(OPTIONS, option_fault)
        _refuse_keys(report, {**overrides, **dict(enumerate(scores))})
        continued = None if continue_from is None else find_continued(continue_from, namespace, report)
        top = _read_top(report, tree)
        if top is not None:
            if default_llm and "llm" not in top.key_values and "llm" not in overrides:
                if fault := find_default_fault(default_llm, namespace):
                    hint = "Set another one by `%config EnsembleMagics.llm = ...`, or write `llm:` in the cell."
                    report.add_mistake(OPTIONS, f"the default model, {default_by}: {fault}", hint)
                else:
                    overrides = {**overrides, "llm": default_llm}
            _apply_overrides(top, overrides, source)
            inputs = InputFinder(
                top=top,
                options=overrides.get("inputs", {}),
                namespace={} if namespace is None else namespace,
                report=report,
                columns=columns,
                is_strict=needs_inputs,
                continued=continued,
                is_dry_run=is_dry_run,
            ).find()
            resolver = NameResolver(namespace)
            assembly = EnsembleBuilder(top, resolver, inputs.values, report)
            definition, graph = assembly.make(EnsembleDefinition)
            names = [] if graph is None or graph.managed else [node.name for node in graph.tasks]
            if only is not None and names and only not in names:
                message = f"there is no task {quote(only)} in this cell.{suggest_name(only, names)}"
                report.add_mistake(source.locate_option(only), message, f"Tasks here: {join_names(names)}.")
            if scores:
                from ensemble_notebook.cell.binding.scorer_binder import bind_scorers  # most cells have none

                known = tuple(dict.fromkeys((*columns, *inputs.values)))
                scorers = bind_scorers(scores, expected, namespace, known, report, varied)
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
        continued=continued,
        scorers=scorers,
        _source=report.source,
        _section=top,
        _namespace=namespace,
        _has_names=resolver.was_asked,
    )


def find_default_fault(model: str, namespace: Mapping[str, Any] | None) -> str | None:
    """What is wrong with a model that cells take where they name none, and what to write; None where nothing is."""
    try:
        NameResolver(namespace).find_model(ScalarNode(0, 0, OPTIONS, model, is_plain=False))
    except MisreadError as error:
        return f"{error.message or 'this looks like a key.'} {error.hint}".rstrip()
    return None


def _read_top(report: MistakeReport, tree: Node | None) -> Section | None:
    """Read the body, laid over the file where there is one."""
    body, *files = report.source.parts
    if not files:
        return read_section(read_tree(report) if tree is None else tree, report)
    below = read_section(read_tree(report, files[0]), report)
    root = read_tree(report, body) if tree is None else tree
    if root is None:  # nothing, comments, or what has been reported
        return below
    above = read_section(root, report)
    return above if below is None or above is None else lay_over(above, below)


def _refuse_keys(report: MistakeReport, overrides: Mapping[Any, Any]) -> None:
    """No key may stand in a cell, wherever in it: cells are saved and shared (docs/contract/engine.md#models)."""
    message = "this looks like a key, and keys never stand in a cell: cells are saved and shared."
    hint = (
        "Put it into an environment variable before you start: OPENAI_API_KEY, or another one named by `api_key_env`. "
        "An address with user and password counts, too: make the model in Python and name its variable in `llm`."
    )
    protect_environment()
    source = report.source
    if has_secret(source.text):
        found = [line for line in range(1, source.line_count + 1) if has_secret(source.line(line))]
        for line in found:
            text, masked, first = source.line(line), mask(source.line(line)), source.line_start(line)
            start = _count_equal_start(text, masked)
            end = len(text) - _count_equal_start(text[:start:-1], masked[:start:-1])
            report.add_mistake(source.locate(first + start, first + end), message, hint)
        if not found:  # a key over several lines
            report.add_mistake(source.locate(_count_equal_start(source.text, mask(source.text))), message, hint)
    for given in (*overrides.values(), *overrides.get("inputs", {}).values()):
        if isinstance(given, str) and has_secret(given):
            report.add_mistake(OPTIONS, message, hint)


def _count_equal_start(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _apply_overrides(top: Section, overrides: Mapping[str, Any], source: SourceText) -> None:
    """Put the values of the options in place of the cell's."""
    for name in _OVERRIDES:
        if name not in overrides:
            continue
        given = overrides[name]
        node = ScalarNode(0, 0, source.locate_option(str(given)), str(given), is_plain=False)
        top.key_values[name] = KeyValue(node.place, node)
        if isinstance(given, str) and name == "budget" and is_amount(given):
            top.values[name] = read_limit(node, "--budget", vocabulary.BUDGET)
        else:
            top.values[name] = node if isinstance(given, str) and name in ("llm", "budget") else given


# --- Cells that are in files, or in texts of Python: with or without their first line, and as ensembles ---------------


_NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class CellFile:
    """A cell that was kept as text.

    Attributes:
        body: in YAML; a first line with options is left as an empty one, so that mistakes have the file's lines.
        options: of the first line; the defaults where there is none.
        name: of the file, as it was given; empty for a text of Python.
    """

    body: str
    options: Options = _NO_OPTIONS
    name: str = ""


def read_cell_file(path: Path) -> CellFile:
    """Read a cell from a file.

    Raises:
        ValidationError: the file can't be read, or its first line has a mistake.
    """
    return split_cell(read_text_file(path), str(path))


def split_cell(text: str, name: str = "") -> CellFile:
    """Split a cell into its first line, if that has the magic, and its body.

    Raises:
        ValidationError: the line has a mistake.
    """
    first, _, rest = text.partition("\n")
    if first.split()[:1] != [MAGIC]:
        return CellFile(text, name=name)
    try:
        options = parse_options(first.strip().removeprefix(MAGIC))
    except ValidationError as error:
        raise ValidationError(f"{name}, line 1: {error}" if name else str(error)) from None
    if options.file is not None:
        raise ValidationError(f"{name or 'The text'}, line 1: --file is for a cell, and this one is in a file itself.")
    return CellFile(f"\n{rest}", options, name)


def add_options(given: Options, below: Options) -> Options:
    """Add the options of a file's first line to those that were given, which come first."""
    added = {
        each.name: getattr(below, each.name)
        for each in fields(Options)
        if getattr(given, each.name) == getattr(_NO_OPTIONS, each.name)
    }
    return replace(given, **added | {"inputs": {**below.inputs, **given.inputs}})


def load_ensemble(source: str | Path, namespace: Mapping[str, Any] | None = None) -> Ensemble:
    """Make an ensemble of a cell.

    Args:
        source: a text is the cell, a `Path` the file that holds it. Of a first line with options, those about the
            ensemble hold: its inputs, model, workflow, capture mode, budget and name.
        namespace: the variables that the cell names.

    Raises:
        ValidationError: the file can't be read. As a `CellError`, with all mistakes and their places: the cell can't
            run, or names what is not there.
    """
    given: object = source
    if not isinstance(given, str | Path):
        raise ValidationError(f"Ensemble.from_yaml takes a text or a Path, got {type(given).__name__}.")
    names = {} if namespace is None else namespace
    kept = read_cell_file(given) if isinstance(given, Path) else split_cell(given)
    overrides = kept.options.overrides
    if kept.name:
        cell = read_cell("", names, overrides=overrides, needs_inputs=False, file=kept)
    else:
        cell = read_cell(kept.body, names, overrides=overrides, needs_inputs=False)
    return cell.build(names)
