"""The final answer of a run, masked, made safe, and cut where it is long: below its cell (C30a), and in its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.outputs.secrets import mask_start
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.html_table import escape_markdown

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult


# A page takes seconds for a text of a megabyte, and nobody reads it there. So only its beginning is made safe and sent,
# with a word on how much is left out and the expression that gives all of it.
LONGEST_ANSWER: Final = 20_000

_LONGEST_REST: Final = 500  # so much less may be shown, so that no line or word is cut

# A run that ended for another reason has a last output, but no answer.
_FINAL: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS, RunStatus.BUDGET_EXCEEDED)
_SO_FAR: Final = ", until the budget was used up,"


class Answer:
    """What a cell shows of the final text of a run.

    Args:
        text: all of it.
        expression: what gives all of it in the notebook: ``report.raw``.
        author: who wrote it, ``report · writer``; pages name them.
        longest: how many characters of it are shown.
    """

    def __init__(self, text: str, expression: str, author: str = "", longest: int = LONGEST_ANSWER) -> None:
        start = mask_start(text, longest)
        self._left_out = max(0, len(text) - longest)
        if self._left_out:
            near = len(start) - _LONGEST_REST
            end = next((end for mark in ("\n", " ") if (end := start.rfind(mark, max(0, near))) > 0), len(start))
            self._left_out += len(start) - end
            start = start[:end]
        self._start = start
        self._expression = expression
        self._author = author

    @property
    def plain(self) -> str:
        """For terminals, and wherever there is no HTML."""
        return remove_control_characters(self._start) + self._tell_rest("\n\n[{}. All of it: {}]", self._expression)

    @property
    def html(self) -> str:
        """For pages."""
        from ensemble_notebook.notebook.picture.answer_html import write_answer  # its reader of Markdown loads here

        words = "<hr><p><strong>{}. All of it:</strong> <code>{}</code></p>"
        return write_answer(self._start, self._tell_rest(words, escape_markdown(self._expression)), self._author)

    def _tell_rest(self, words: str, expression: str) -> str:
        said = f"{self._left_out:,} more characters are left out here"
        return words.format(said, expression) if self._left_out else ""


def make_answer_bundle(
    output: EnsembleOutput | None,
    result: MapResult | None,
    expression: str,
    *,
    author: str | None = None,
    longest: int = LONGEST_ANSWER,
) -> dict[str, Any] | None:
    """What stands below a run that is over: its answer, or the first rows of many; None where there is none.

    Args:
        output: of the run; None where it has none.
        result: of a map; None of another run.
        expression: what gives the one or the other in the notebook.
        author: who wrote the answer; None: the variable that has the output, and the task.
        longest: how many characters of an answer are shown.
    """
    if result is not None:
        from ensemble_notebook.notebook.picture.map_picture import make_map_bundle

        return make_map_bundle(result, expression)
    if output is None or output.trace.capture_mode is CaptureMode.METADATA:  # no page keeps texts
        return None
    task = output.get_final_output()
    if task is not None and (task.item_outputs or task.item_failures):
        from ensemble_notebook.notebook.picture.map_picture import make_items_bundle

        return make_items_bundle(output, task, expression)
    if output.status not in _FINAL or not output.raw.strip():
        return None
    run = expression.removeprefix("_ensemble")
    if author is None:
        author = "" if task is None else " · ".join(filter(None, [run, task.name]))
    if output.status is RunStatus.BUDGET_EXCEEDED:
        author += _SO_FAR
    answer = Answer(output.raw, f"{expression}.raw", author, longest)
    return {"text/plain": answer.plain, "text/html": answer.html}
