"""``%ensemble improve``: better texts for an ensemble, confirmed by rows that the search never saw (C118, C119)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.cell.binding.scorer_binder import find_scorers
from ensemble_notebook.cell.changed_cell import write_improved_cell
from ensemble_notebook.cell.reading.options import DEFAULT_OUT, Options
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.ensemble.improving.improve_run import prepare_improvement
from ensemble_notebook.ensemble.improving.improve_settings import read_improve
from ensemble_notebook.ensemble.improving.improvement import Improvement
from ensemble_notebook.ensemble.many_runs.loaded_map import load_result
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.ensemble.stored_definition import read_definition
from ensemble_notebook.errors import StoreError, ValidationError, did_you_mean
from ensemble_notebook.notebook.live.frontend import write_text
from ensemble_notebook.notebook.magics.map_cell import confirm_estimate, find_rows
from ensemble_notebook.notebook.magics.run_commands import WAYS, find_remembered, read_variable, take_values
from ensemble_notebook.notebook.magics.text_commands import give_cell
from ensemble_notebook.trace.store.run_facts import RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore

_ONCE: Final = ("--map", "--expected", "--held-out", "--budget", "--seed", "--llm")
_SEVERAL: Final = ("--score", "--change")
_DRY_RUN: Final = "--dry-run"
_NO_TIMELINE: Final = "--no-timeline"
OPTIONS: Final = (*_SEVERAL, *_ONCE, _DRY_RUN, "-o", _NO_TIMELINE)
_USAGE: Final = (
    f"%ensemble improve takes the result of a map {WAYS}, or an ensemble with --map ROWS and --score SCORER, and at "
    f"least one --change PLACE, such as task.NAME.description or agent.ROLE.system_prompt. It may take --expected "
    f"COLUMN, --held-out ROWS, --budget LIMIT, --seed N, --llm MODEL, which rewrites, --dry-run, -o NAME and "
    f"--no-timeline."
)


def improve_texts(words: Sequence[str], shell: Any) -> Improvement | None:
    """Look for better texts, and put the ensemble with them into a new cell below, where the held-out rows confirm it.

    Gives the verdict, which is also bound to ``_ensemble``, or the name after ``-o``; after ``--dry-run`` None.

    Raises:
        ValidationError: there is a mistake; nothing was asked.
        StoreError: there is no such run.
        RunInterrupted: it was not to cost so much, or was stopped; the best so far is bound.
    """
    flags = {each for each in words if each in (_DRY_RUN, _NO_TIMELINE)}
    word, given, out = _read_words([each for each in words if each not in flags])
    names: Mapping[str, Any] = shell.user_ns
    if (llm := given.get("llm")) is not None and llm in names:
        given["llm"] = names[llm]
    ensemble, result, cell = _find(word, shell)
    rows = _find_rows(given.pop("map", None), result, names)
    if "score" in given:
        given["score"] = find_scorers(given["score"], names, "--score ")
    elif result is not None:
        given["score"] = {each.name: each.judge or each.function for each in getattr(result, "_scorers", ())}
    if result is not None:
        given.setdefault("expected", result._expected)
    read, settings = read_improve(rows, **given)
    work = prepare_improvement(ensemble, read, settings).work
    most = shell.magics_manager.registry["EnsembleMagics"].confirm_cost
    estimate = work.estimate()
    write_text(f"{work.describe_rows()}. {work.describe_estimate(estimate)}.\n")
    if _DRY_RUN in flags:
        return None
    if most is not None:
        confirm_estimate(shell, work.describe_rows(), estimate, most, has_budget=True)

    def start(run: RunSettings) -> Any:
        own = replace(settings, listeners=run.listeners, review_handler=run.review_handler, origin=run.origin)
        handle = prepare_improvement(ensemble, read, own, lambda line: write_text(f"{line}\n"))
        handle._begin()
        return handle

    shell.magics_manager.registry["EnsembleMagics"].show_run(
        ensemble, start, Options(out=out, has_timeline=_NO_TIMELINE not in flags)
    )
    made: Improvement = names[out]
    if made.changes:
        _give_cell(word if result is None else "improved", ensemble, cell, made, shell)
    return made


def _read_words(words: Sequence[str]) -> tuple[str, dict[str, Any], str]:
    """What is improved, the arguments, and the variable for the verdict.

    Raises:
        ValidationError: a word is none of these.
    """
    rest = list(words)
    out = [name for _, name in take_values(rest, "-o", "--out")] or [DEFAULT_OUT]
    given: dict[str, Any] = {}
    for flag in (*_SEVERAL, *_ONCE):
        found = [text for _, text in take_values(rest, flag)]
        if not all(found):
            raise ValidationError(f"%ensemble improve: {flag} wants a value behind it.")
        if flag in _ONCE and len(found) > 1:
            raise ValidationError(f"%ensemble improve: {flag} is given {len(found)} times. Keep one of them.")
        if found:
            given[flag.removeprefix("--").replace("-", "_")] = found if flag in _SEVERAL else found[0]
    if wrong := next((each for each in rest if each.startswith("--")), None):
        raise ValidationError(f"%ensemble improve knows no {wrong!r}.{did_you_mean(wrong, OPTIONS)}")
    if len(rest) != 1 or len(out) != 1 or not out[0].isidentifier():
        raise ValidationError(_USAGE)
    numbers: dict[str, Any] = {name: _read_number(given[name]) for name in ("held_out", "seed") if name in given}
    return rest[0], {**given, **numbers}, out[0]


def _read_number(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text


def _find(word: str, shell: Any) -> tuple[Any, MapResult | None, RunOrigin | None]:
    """The ensemble that a word names, the result of a map that it was run in, and the cell of that.

    Raises:
        ValidationError: it names neither, or nothing tells what the map ran.
    """
    held = read_variable(word, shell)
    if isinstance(held, Ensemble):
        return held, None, None
    if held is not None and not isinstance(held, MapResult) and word in shell.user_ns:
        raise ValidationError(f"{word} is no result of a map and no ensemble, but a {type(held).__name__}. {_USAGE}")
    result = load_result(find_remembered(word, shell).run_id) if held is None else held
    if not isinstance(result, MapResult):
        raise ValidationError(f"{word} is a run of one row: name the result of a map, or its ensemble. {_USAGE}")
    store = RunStore.find()
    run = None if store is None or result.run_id is None else store.find_exact(result.run_id)
    cell = None if run is None or run.facts.origin is None or not run.facts.origin.text else run.facts.origin
    if result.ensemble._can_run:
        return result.ensemble, result, cell
    try:
        return read_definition(str(result.run_id), shell.user_ns), result, cell
    except (StoreError, ValidationError) as error:
        raise ValidationError(
            f"What map {result.run_id} ran is not here any more, so its texts can't be improved: name a variable that "
            f"has its ensemble, with --map and --score. {error}"
        ) from None


def _find_rows(place: str | None, result: MapResult | None, names: Mapping[str, Any]) -> Any:
    """The rows of ``--map``, else those of the result.

    Raises:
        ValidationError: there are none.
    """
    if place is not None:
        return find_rows(names, place, None)[0]
    if result is None:
        raise ValidationError(f"An ensemble alone has no rows: name them with --map ROWS. {_USAGE}")
    firsts = dict[str, Mapping[str, Any]]()
    for each in result.rows:  # variants and repeats of a row are one
        firsts.setdefault(each.row, each.inputs)
    return [dict(each) for each in firsts.values()]


def _give_cell(name: str, ensemble: Any, cell: RunOrigin | None, made: Improvement, shell: Any) -> None:
    """Put the better texts into a new cell below the line; where that can't be, print it, or say why there is none."""
    head = f"%%ensemble --define -o {name}"
    try:
        body = write_improved_cell(ensemble, cell, made.changes, shell.user_ns)
        if cell is not None:
            head = f"%%ensemble {cell.options.strip()}".rstrip()
    except ValidationError:  # it stands in the file that the cell builds on, or where nobody writes
        try:
            body = made.ensemble.to_yaml(shell.user_ns)
        except ValidationError as error:  # the texts were paid for: they are in the verdict
            write_text(f"There is no cell with the better texts, which `changes` has: {error}\n")
            return
    body = body.strip("\n")
    text = give_cell(f"{head}\n{body}\n", shell)
    if text is not None:
        write_text(f"{text}\n")
