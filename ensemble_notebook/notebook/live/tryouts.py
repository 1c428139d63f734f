"""What a person tries in the views of a run that is over: a call made again, forks, other conditions (F4, F7).

Each is a run with a feed of its own, whose messages go by the channel of the views that it is tried in. Work is done on
threads: a view waits for no answer. What a page sends is not trusted.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython

from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.limits import find_rates
from ensemble_notebook.domain.outputs.secrets import MASK, mask
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.earlier_runs.forking import find_llm
from ensemble_notebook.ensemble.earlier_runs.past_call import find_past_call
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.person import Person
from ensemble_notebook.errors import EnsembleError, ValidationError, remove_control_characters
from ensemble_notebook.models.model_kinds import identify_model, parse_spec
from ensemble_notebook.notebook.live.cell_edit import describe_edit
from ensemble_notebook.notebook.live.row_tryouts import SelectedRows, describe_new_scores, describe_rows
from ensemble_notebook.notebook.live.run_feed import RunFeed, Subscriber, find_feed_of, keep_feed
from ensemble_notebook.notebook.live.run_painter import RunPainter
from ensemble_notebook.trace.analysis.text_changes import diff_words
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.score import ScoreRecord
    from ensemble_notebook.ensemble.many_runs.rerun import Rerun

MOST_REPEATS: Final = 10
_RESULT_LIMIT_S: Final = 10.0
_GIVEN_UP: Final = "It was given up before it had an end: run it again."
_ROW_ACTS: Final = ("fork_rows", "label_rows", "judge_rows")
"""What is done with selected rows: all views are told of it, also those that come later."""
_TEXTS: Final = ("reply", "tool_result", "output", "system_prompt", "user_prompt")

logger = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], object]


@dataclass(eq=False, kw_only=True)
class Tryout:
    """A call that is made again, or a fork.

    Attributes:
        kind: ``rerun`` or ``fork``.
        span_id: of the origin, at which it is.
        changed: the arguments that say what is different.
        feed: of its run.
        at_end: it begins where the span ends, since what that gave is what is different.
        variable: what the notebook calls it, once it is over.
        result: the `Rerun`, or the output of the fork, likewise.
        error: why it has failed, for people.
        is_over: its result is there, or it has none.
    """

    kind: str
    span_id: str
    changed: Sequence[str]
    feed: RunFeed
    at_end: bool
    variable: str | None = None
    result: Any = None
    error: str | None = None
    is_over: threading.Event = field(default_factory=threading.Event)
    views: weakref.WeakKeyDictionary[Subscriber, _Tunnel] = field(default_factory=weakref.WeakKeyDictionary)

    def end(self, result: Any) -> None:
        """Take its result, None where it was given up."""
        self.result = result
        self.is_over.set()

    def to_message(self) -> dict[str, Any]:
        """What views are told of it."""
        told = {"feed_id": self.feed.feed_id, "kind": self.kind, "span_id": self.span_id, "at_end": self.at_end}
        return {**told, "changed": list(self.changed), "variable": self.variable, "error": self.error}


class _Tunnel:
    """Carries the messages of the feed of a tryout to a view of its origin."""

    def __init__(self, subscriber: Subscriber, feed_id: str) -> None:
        self._subscriber = weakref.ref(subscriber)
        self._feed_id = feed_id

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None, /) -> None:
        subscriber = self._subscriber()
        if subscriber is not None:
            subscriber.send({"kind": "tryout", "feed_id": self._feed_id, "content": content}, buffers)


class Tryouts:
    """All that is tried in the views of one run.

    Args:
        output: of the run, weakly.
        result: of a map, weakly; None of another run.
    """

    def __init__(
        self, output: Callable[[], EnsembleOutput | None], result: Callable[[], MapResult | None] | None = None
    ) -> None:
        self._output = output
        self._rows = None if result is None else SelectedRows(output, result, _get_namespace)
        self._stops: dict[Any, Callable[[], object]] = {}
        self._row_acts: dict[Any, dict[str, Any]] = {}
        self._tryouts: dict[str, Tryout] = {}
        self._viewers: weakref.WeakSet[Subscriber] = weakref.WeakSet()
        self._lock = threading.Lock()

    def receive(self, subscriber: Subscriber, content: Mapping[str, Any]) -> None:
        """Answer a view of the run. Quick: what takes time is done on a thread."""
        self._viewers.add(subscriber)
        tryout = self._tryouts.get(str(content.get("feed_id")))
        if "content" in content:  # for the feed of a tryout
            if tryout is not None:
                self._hand_on(tryout, subscriber, content["content"])
            return
        acts = {
            "offer": self._offer,
            "rerun": self._rerun,
            "fork": self._fork,
            "source": self._tell_source,
            "score": self._score,
            "mark": self._mark,
            "predict": self._predict,
            "offer_rows": self._offer_rows,
            "fork_rows": self._fork_rows,
            "label_rows": self._label_rows,
            "judge_rows": self._judge_rows,
            "tell_row_acts": self._tell_row_acts,
            "stop": self._stop,
        }
        name = str(content.get("act"))
        act = acts.get(name)
        if act is None:
            return
        number = content.get("number")

        def send(told: dict[str, Any]) -> None:
            message = {"kind": "tryout", "number": number, **told}
            if name in _ROW_ACTS:
                self._tell_row_act({**message, "row_act": name})
            else:
                subscriber.send(message)

        def work() -> None:
            try:
                act(content, send)
            except (EnsembleError, ValueError, TypeError) as error:
                send({"error": _describe(error)})
            except Exception as error:
                logger.exception("What a person tried in a view has failed.")
                send({"error": _describe(error)})

        threading.Thread(target=work, name="ensemble-tryout", daemon=True).start()

    def tell(self, subscriber: Subscriber) -> None:
        """Tell a view that has just come of all forks."""
        with self._lock:
            forks = [each.to_message() for each in self._tryouts.values() if each.kind == "fork"]
        if forks:
            subscriber.send({"kind": "tryout", "forks": forks})

    def _tell_all(self) -> None:
        for viewer in list(self._viewers):
            with contextlib.suppress(Exception):  # it has gone
                self.tell(viewer)

    def _hand_on(self, tryout: Tryout, subscriber: Subscriber, content: Any) -> None:
        tunnel = tryout.views.get(subscriber)
        if tunnel is None:
            tunnel = tryout.views[subscriber] = _Tunnel(subscriber, tryout.feed.feed_id)
            tryout.feed.subscribe(tunnel)
        tryout.feed.receive(tunnel, content)

    # --- What can be tried at a span ----------------------------------------------------------------------------------

    def _offer(self, content: Mapping[str, Any], send: Send) -> None:
        """What stands at a span, as far as it can be changed, and what could be asked in place of its model."""
        output = self._get_output()
        span = self._find_span(content)
        told: dict[str, Any] = {"span_id": span.span_id, "output": _clean(span.output or "")}
        if span.kind is SpanKind.LLM:
            told |= self._offer_call(output, span)
        send({"offer": told})

    def _offer_call(self, output: EnsembleOutput, span: Span) -> dict[str, Any]:
        fold = output.trace._fold
        with fold.lock:
            known = fold.messages.get(span.task_id or "", [])
            said = [each for each in known if span.end_seq is None or each.seq <= span.end_seq]
        system = next((each.text for each in said if each.role == "system"), "")
        user = next((each.text for each in said if each.role == "user"), "")
        others = [each for each in said if each.role != "system"][1:]
        own = find_llm(build_team_graph(output.ensemble), span)
        totals = span.totals
        spent = (None, None) if totals is None else (totals.input_tokens, totals.output_tokens)
        usage = TokenUsage(input_tokens=spent[0], output_tokens=spent[1])
        models = [
            {"name": name, "cost": _estimate(llm, usage, output)} for name, llm in self._list_models(output).items()
        ]
        return {
            "system_prompt": _clean(system),
            "user_prompt": _clean(user),
            "others": len([each for each in others if each.role != "assistant"]),
            "model": span.model or span.model_requested,
            "cost": None if totals is None or totals.cost is None else float(totals.cost),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "currency": fold.currency,
            "parameters": _clean(_write_parameters(own)),
            "models": models,
            "scorers": [name for name, value in _list_variables() if _is_scorer(value)],
        }

    def _list_models(self, output: EnsembleOutput) -> dict[str, Any]:
        """The models of the ensemble that are named by a text, and those that variables of the notebook hold."""
        graph = build_team_graph(output.ensemble)
        specs = [*(each.llm for each in graph.team), *(each.llm for each in graph.all_tasks)]
        found = {name: llm for llm in specs if (name := _name_spec(llm)) is not None}
        return {**found, **{name: value for name, value in _list_variables() if _is_model(value)}}

    # --- Trying -------------------------------------------------------------------------------------------------------

    def _rerun(self, content: Mapping[str, Any], send: Send) -> None:
        output, span = self._get_output(), self._find_span(content)
        change, parameters = self._read_change(output, span, content)
        repeat = content.get("repeat")
        repeat = min(max(1, repeat), MOST_REPEATS) if isinstance(repeat, int) else 1
        painter = RunPainter(output.ensemble.cost)
        handle = output.start_rerun(span.span_id, repeat=repeat, listeners=(painter,), **change, **parameters)
        changed = [*change, *parameters]
        tryout = Tryout(
            kind="rerun",
            span_id=span.span_id,
            changed=changed,
            feed=RunFeed(painter.messages, handle.cancel),
            at_end=False,
        )
        self._follow(tryout, painter, send)
        with contextlib.suppress(BaseException):  # what failed is told reply by reply
            handle.result()
        tryout.end(handle.output)
        painter.close(has_end=tryout.result is not None)
        if tryout.result is None:
            send({"error": _GIVEN_UP})
            return
        tryout.variable = self._bind(tryout, "rerun")
        send({"feed_id": tryout.feed.feed_id, "variable": tryout.variable, "replies": list_replies(tryout.result)})

    def _fork(self, content: Mapping[str, Any], send: Send) -> None:
        output, span = self._get_output(), self._find_span(content)
        kept = self._tryouts.get(str(content.get("feed_id")))
        change: dict[str, Any]
        parameters: dict[str, Any] = {}
        if kept is not None:  # a reply of a call that was made again
            change, point = {"reply": _keep_reply(kept.result, content.get("reply"))}, kept.span_id
        else:
            change, parameters = self._read_change(output, span, content)
            point = span.span_id
        with self._lock:
            variable = self._choose_variable("fork")
        painter = RunPainter(output.ensemble.cost, variable)
        person = Person(has_timeline=True, has_console=False, is_asked=output.ensemble.review_handler is None)
        handle = output.start_fork(
            point,
            **change,
            **({"parameters": parameters} if parameters else {}),
            listeners=(painter, person),
            review_handler=None if output.ensemble.review_handler is not None else person.reviewer,
        )
        changed = [*change, *(["parameters"] if parameters else [])]
        at_end = bool({"reply", "tool_result", "output"} & {*change})
        feed = RunFeed(painter.messages, handle.cancel, person)
        tryout = Tryout(kind="fork", span_id=point, changed=changed, feed=feed, at_end=at_end, variable=variable)
        self._watch_fork(tryout, painter, handle, send)

    def _watch_fork(self, tryout: Tryout, painter: RunPainter, handle: Any, send: Send) -> None:
        """Have views show a fork, or a map in which rows fork, until it is over; then the notebook has it, too."""
        self._follow(tryout, painter, send)
        self._tell_all()
        with contextlib.suppress(BaseException):  # its view tells how it ended
            handle.result()
        tryout.end(handle.output)
        painter.close(has_end=tryout.result is not None)
        result = tryout.result if isinstance(tryout.result, MapResult) else None
        output = tryout.result if result is None else result.output
        if output is not None:
            keep_feed(output, tryout.feed)
            weak = (weakref.ref(output),) if result is None else (weakref.ref(output), weakref.ref(result))
            tryout.feed.make_tryouts = partial(Tryouts, *weak)
            tryout.variable = self._bind(tryout, "fork")
        self._tell_all()

    def _follow(self, tryout: Tryout, painter: RunPainter, send: Send) -> None:
        """Have views show its run from now on."""
        with self._lock:
            self._tryouts[tryout.feed.feed_id] = tryout
        send({"began": tryout.to_message()})
        painter.show(tryout.feed)

    def _read_change(
        self, output: EnsembleOutput, span: Span | None, content: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a page wants to be different, and parameters of the model. What it has left as it was is not sent.

        Raises:
            ValidationError: it makes no sense.
        """
        given = content.get("change")
        given = given if isinstance(given, Mapping) else {}
        change: dict[str, Any] = {name: given[name] for name in _TEXTS if isinstance(given.get(name), str)}
        if span is not None and any(MASK in change.get(name, "") for name in ("system_prompt", "user_prompt")):
            call = find_past_call(output, span)
            for name, text in (("system_prompt", call.system), ("user_prompt", call.prompt)):
                if name in change:
                    change[name] = unmask(change[name], text)
        asked = given.get("llm")
        if isinstance(asked, str) and asked.strip():
            change["llm"] = self._list_models(output).get(asked.strip()) or parse_spec(asked.strip()).text
        parameters = given.get("parameters")
        return change, read_parameters(parameters) if isinstance(parameters, str) else {}

    # --- What is done with rows of a map that are selected ----------------------------------------------------------

    def _pick_rows(self, content: Mapping[str, Any]) -> tuple[SelectedRows, list[RowResult], str]:
        """The rows that are meant and ran, and what to say of the others.

        Raises:
            ValidationError: none of them ran, or the run is no map.
        """
        feed, spans = find_feed_of(self._get_output()), content.get("spans")
        if self._rows is None or feed is None or not isinstance(spans, list):
            raise ValidationError("This is no map with rows that could be chosen.")
        return self._rows, *self._rows.pick([feed.messages.name_task_around(str(each)) for each in spans])

    def _offer_rows(self, content: Mapping[str, Any], send: Send) -> None:
        """What can be done with rows, and what that is likely to cost."""
        selected, rows, lacking = self._pick_rows(content)
        output: Any = rows[0].output
        cost, usage = selected.sum_usage(rows)
        models = [
            {"name": name, "cost": _estimate(llm, usage, output)} for name, llm in self._list_models(output).items()
        ]
        told = {"count": len(rows), "lacking": _clean(lacking), "tasks": selected.list_tasks(rows), "models": models}
        told |= {"cost": cost, "currency": output.trace._fold.currency, "judges": [*selected.find_judges()]}
        send({"rows": told})

    def _fork_rows(self, content: Mapping[str, Any], send: Send) -> None:
        """Run rows again from a task on, side by side: a map of its own, in which they alone are new."""
        selected, rows, lacking = self._pick_rows(content)
        output: Any = rows[0].output
        given = content.get("change")
        change = {name: each for name, each in given.items() if each} if isinstance(given, Mapping) else {}
        if MASK in str(change.get("system_prompt")):
            raise ValidationError(f"{MASK} stands in place of a secret, and is never sent: write the prompt without.")
        change, _ = self._read_change(output, None, {"change": change})
        with self._lock:
            variable = self._choose_variable("fork")
        painter = RunPainter(output.ensemble.cost, variable)
        asks = output.ensemble.review_handler is None
        person = Person(has_timeline=True, has_console=False, is_asked=asks)
        handle = selected.result._start_fork(
            rows,
            str(content.get("task")),
            **change,
            listeners=(painter, person),
            review_handler=person.reviewer if asks else None,
        )
        handle._begin()
        feed = RunFeed(painter.messages, handle.cancel, person)
        point = str(content["spans"][0])
        tryout = Tryout(kind="fork", span_id=point, changed=[*change], feed=feed, at_end=False, variable=variable)
        self._watch_fork(tryout, painter, handle, send)
        if tryout.result is None:
            send({"error": _GIVEN_UP})
            return
        names = {each.name for each in rows}
        new = [each for each in tryout.result if each.name in names]
        said = f"{pluralize(len(rows), 'row')} ran again: {describe_rows(new)}.{lacking}"
        send({"said": _clean(said), "variable": tryout.variable})

    def _label_rows(self, content: Mapping[str, Any], send: Send) -> None:
        """A person says of rows that they are good or bad, or what they are, with a note (V8)."""
        selected, rows, lacking = self._pick_rows(content)
        value, note = _read_label(content)
        self._tell_scores(selected.label(rows, value, note))
        word = value if isinstance(value, str) else "good" if value else "bad"
        said = f"{pluralize(len(rows), 'row')} labelled {word!r}.{lacking}"
        send({"said": _clean(said), "variable": selected.variable})

    def _judge_rows(self, content: Mapping[str, Any], send: Send) -> None:
        """Have a judge look at rows; its scores are told as they come."""
        selected, rows, lacking = self._pick_rows(content)
        number, judged = content.get("number"), set[str]()

        def hear(scores: Sequence[ScoreRecord]) -> None:
            judged.update(each.run_id for each in scores)  # one run, or the two that were compared
            if (feed := find_feed_of(self._get_output())) is not None:
                feed.add_scores(scores)
            send({"progress": f"{len(judged):,} of {pluralize(len(rows), 'row')} judged"})

        def begin(stop: Callable[[], None]) -> None:
            self._stops[number] = stop
            send({"progress": f"0 of {pluralize(len(rows), 'row')} judged"})

        try:
            records = selected.judge(rows, str(content.get("judge")), hear, begin)
        finally:
            self._stops.pop(number, None)
        self._tell_scores(records)
        stopped = "" if len(judged) == len(rows) else f" {len(judged):,} of {pluralize(len(rows), 'row')} judged."
        send({"said": _clean(f"{describe_new_scores(records)}.{stopped}{lacking}"), "variable": selected.variable})

    def _tell_row_act(self, message: dict[str, Any]) -> None:
        """Tell all views how far it is. Once another one begins, those that are over are forgotten."""
        number = message["number"]
        with self._lock:
            if number not in self._row_acts:
                self._row_acts = {
                    key: each for key, each in self._row_acts.items() if not {"said", "error"} & each.keys()
                }
            self._row_acts[number] = message
        for viewer in list(self._viewers):
            with contextlib.suppress(Exception):  # it has gone
                viewer.send(message)

    def _tell_row_acts(self, _: Mapping[str, Any], send: Send) -> None:
        for message in [*self._row_acts.values()]:
            send(message)

    def _stop(self, content: Mapping[str, Any], _: Send) -> None:
        if (stop := self._stops.get(content.get("of"))) is not None:
            stop()

    def _tell_scores(self, scores: Sequence[ScoreRecord]) -> None:
        """Tell all views, and the cell, of scores."""
        output = self._output()
        feed = None if output is None else find_feed_of(output)
        if feed is not None:
            feed.add_scores(scores)
            if feed.renew_picture is not None:
                feed.renew_picture()

    # --- What is done with it -----------------------------------------------------------------------------------------

    def _score(self, content: Mapping[str, Any], send: Send) -> None:
        tryout = self._tryouts.get(str(content.get("feed_id")))
        scorer = dict(_list_variables()).get(str(content.get("scorer")))
        if tryout is None or tryout.result is None or not _is_scorer(scorer):
            raise ValidationError("There is no such scorer any more: name one that a variable of the notebook holds.")
        tryout.result = tryout.result.score(scorer)
        if tryout.variable is not None:
            _get_namespace()[tryout.variable] = tryout.result
        send({"feed_id": tryout.feed.feed_id, "variable": tryout.variable, "replies": list_replies(tryout.result)})

    def _mark(self, content: Mapping[str, Any], send: Send) -> None:
        """A person says of a span or a time that it is good or bad, or what it is, with a note (F7): a score."""
        output, (value, note) = self._get_output(), _read_label(content)
        time = content.get("range")
        span_id = self._find_span(content).span_id if time is None else None
        name = "label" if isinstance(value, str) else "mark"
        output.annotate(value, name, note, span_id, range=time, replace=True)
        if (feed := find_feed_of(output)) is not None:  # it has the fold that has the score by now
            feed.paint(True)
            if feed.renew_picture is not None:
                feed.renew_picture()
        send({"marked": span_id or "range"})

    def _predict(self, content: Mapping[str, Any], send: Send) -> None:
        """How long the run would have taken under other conditions (T23), and when each task."""
        asked = content.get("scenario")
        asked = asked if isinstance(asked, Mapping) else {}
        speedup = asked.get("speedup")
        prediction = self._get_output().what_if(
            max_concurrency=asked.get("max_concurrency"),
            speedup=speedup if isinstance(speedup, Mapping) else None,
            drop_waits=asked.get("drop_waits") or False,
        )
        tasks = [
            [each.span.span_id, round(each.predicted_start_ms, 3), round(each.predicted_end_ms, 3), each.critical]
            for each in prediction.tasks
        ]
        path = [_clean(name) for name in prediction.critical_path]
        told = {"summary": prediction.summary, "path": path, "wall_ms": round(prediction.wall_ms, 3), "tasks": tasks}
        send({"prediction": told})

    def _tell_source(self, content: Mapping[str, Any], send: Send) -> None:
        """The change as a diff of the cell (F5)."""
        tryout = self._tryouts.get(str(content.get("feed_id")))
        if tryout is not None and not tryout.feed.is_live:  # a view shows the end a moment before the result is there
            tryout.is_over.wait(_RESULT_LIMIT_S)
        if tryout is None or tryout.result is None:
            raise ValidationError("It is still going on: wait for its end.")
        made = tryout.result
        if isinstance(made, MapResult):  # of rows that fork: what one of them has changed
            made = next(each.output for each in made if each.output is not None and not each.reused)
        send({"source": describe_edit(made, _get_namespace())})

    def _bind(self, tryout: Tryout, word: str) -> str | None:
        """Have a variable of the notebook hold it."""
        if get_ipython() is None:
            return None
        with self._lock:
            name = tryout.variable or self._choose_variable(word)
            _get_namespace()[name] = tryout.result
        return name

    def _choose_variable(self, word: str) -> str:
        """A name that nothing in the notebook has."""
        output, taken = self._output(), _get_namespace()
        ours = (output, None if self._rows is None else self._rows.result)
        own = next((name for name, value in _list_variables() if any(value is each for each in ours)), "ensemble")
        name, number = f"{own}_{word}", 1
        names = {*taken, *(each.variable for each in self._tryouts.values())}
        while name in names:
            number += 1
            name = f"{own}_{word}_{number}"
        return name

    def _get_output(self) -> EnsembleOutput:
        output = self._output()
        if output is None:
            raise ValidationError("The output of this run is gone: run the cell again.")
        if output.trace.capture_mode is CaptureMode.METADATA:
            raise ValidationError("This run kept no texts (capture_mode metadata): run it with another one.")
        return output

    def _find_span(self, content: Mapping[str, Any]) -> Span:
        span = self._get_output().trace._fold.spans.get(str(content.get("span_id")))
        if span is None:
            raise ValidationError("The run has no such span.")
        if span.kind is SpanKind.ATTEMPT and span.parent is not None:
            return span.parent
        return span


def _read_label(content: Mapping[str, Any]) -> tuple[bool | str, str | None]:
    """What a person says, and the note.

    Raises:
        ValidationError: nothing is said.
    """
    said = content.get("value")
    value = said if isinstance(said, bool) else str(said or "").strip()
    if value == "":
        raise ValidationError("Say in a word what it is, or that it is good or bad.")
    return value, str(content.get("note") or "").strip() or None


def list_replies(rerun: Rerun) -> list[dict[str, Any]]:
    """What came of a call made again, for views: what changed by words, what it took, and its scores."""
    before = "" if rerun.before is None else _clean(rerun.before.text)
    scores = {each.name for each in rerun.score_records}
    told = []
    for number, row in enumerate(rerun.frame.to_dict("records"), 1):
        text = None if _is_missing(row["reply"]) else row["reply"]
        pieces = [] if text is None else diff_words(before, _clean(text))
        one = {"number": number, "pieces": [list(piece) for piece in pieces], "calls": _clean(row["tool_calls"] or "")}
        one["error"] = None if _is_missing(row["error"]) else _clean(str(row["error"]))
        for name in ("input_tokens", "output_tokens", "cost", "duration_ms"):
            one[name] = None if _is_missing(row[name]) else float(row[name])
        one["scores"] = {name: _write_score(row[name]) for name in sorted(scores) if not _is_missing(row.get(name))}
        told.append(one)
    return told


def _write_score(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else _clean(str(value))


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value


def read_parameters(text: str) -> dict[str, Any]:
    """Parameters of a model as a person writes them: ``temperature: 0.2, max_tokens: 300``.

    Raises:
        ValidationError: they are none.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    lines = ", ".join(line.strip(" ,") for line in text.splitlines() if line.strip(" ,"))
    try:
        found = YAML(typ="safe", pure=True).load("{" + lines + "}")
    except YAMLError:
        found = None
    if not isinstance(found, dict) or any(not isinstance(name, str) or value is None for name, value in found.items()):
        raise ValidationError(
            f"Parameters are written such as 'temperature: 0.2, max_tokens: 300', got {text.strip()!r}."
        )
    return found


def unmask(edited: str, true: str) -> str:
    """A text that was edited with its secrets masked, with them in their places again.

    Raises:
        ValidationError: it has more or fewer masks than the text had, so that nobody knows which is which; or what is
            kept of that text has the masks alone.
    """
    masked = mask(true)
    if MASK not in edited or masked == edited:
        return true if masked == edited else edited
    secrets = re.fullmatch("(.*?)".join(map(re.escape, masked.split(MASK))), true, re.DOTALL)
    found = () if secrets is None else secrets.groups()
    if edited.count(MASK) != len(found) or MASK in found:
        raise ValidationError(
            f"{MASK} stands in place of a secret, and is never sent: leave each where it is, or write the text without."
        )
    parts = edited.split(MASK)
    return parts[0] + "".join(secret + part for secret, part in zip(found, parts[1:], strict=True))


def _write_parameters(llm: Any) -> str:
    """The parameters of a spec, as `read_parameters` reads them; none of a model object, which keeps its own."""
    if not isinstance(llm, Mapping):
        return ""
    shown = {name: value for name, value in llm.items() if name not in ("model", "cost", "api_key", "base_url")}
    return ", ".join(f"{name}: {value}" for name, value in shown.items() if isinstance(value, int | float | str))


def _name_spec(llm: Any) -> str | None:
    name = llm.get("model") if isinstance(llm, Mapping) else llm
    return name if isinstance(name, str) else None


def _estimate(llm: Any, usage: TokenUsage, output: EnsembleOutput) -> float | None:
    """What the same tokens cost with a model; None where that is not known."""
    try:
        identity, rates = identify_model(llm), find_rates(llm, output.ensemble.cost)
    except EnsembleError:
        return None
    currency = output.trace._fold.currency
    ask = partial(calculate_price, provider=identity.provider, model=identity.name, at=datetime.now(UTC), rates=rates)
    price = ask(usage, currency=currency)
    return None if price is None else float(price.input + price.output)


def _get_namespace() -> dict[str, Any]:
    shell = get_ipython()
    return {} if shell is None else shell.user_ns


def _list_variables() -> list[tuple[str, Any]]:
    return [(name, value) for name, value in list(_get_namespace().items()) if not name.startswith("_")]


def _is_model(value: Any) -> bool:
    """A model of LangChain, without importing it."""
    return not isinstance(value, type) and any(each.__name__ == "BaseChatModel" for each in type(value).__mro__)


def _is_scorer(value: Any) -> bool:
    """A ready-made one, or a function of the notebook that takes an output."""
    module = str(getattr(value, "__module__", "") or type(value).__module__)
    if module.startswith("ensemble_notebook.scorers"):
        return not inspect.ismodule(value)
    return inspect.isfunction(value) and module == "__main__" and "output" in inspect.signature(value).parameters


def _keep_reply(rerun: Rerun | None, number: Any) -> Any:
    """A reply of a call that was made again.

    Raises:
        ValidationError: there is none of this number, or it failed.
    """
    if rerun is None or not isinstance(number, int):
        raise ValidationError("There is no such reply yet: wait for the end.")
    return rerun._keep(number)


def _clean(text: str) -> str:
    return remove_control_characters(mask(text))


def _describe(error: BaseException) -> str:
    return _clean(str(error) or type(error).__name__)
