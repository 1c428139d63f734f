"""The final answer below a run, as a cell shows it (C30): masked, made safe, and folded where it is long.

A page takes seconds for a text of a megabyte, and nobody reads it there. So only its beginning is made safe and sent,
with a word on how much is left out and the expression that gives all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.outputs.secrets import mask_start
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.page_text import escape_markdown

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.task_output import TaskOutput
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

LONGEST_ANSWER: Final = 20_000

_LONGEST_REST: Final = 500  # so much less may be shown, so that no line or word is cut

# A run that ended for another reason has a last output, but no answer.
_FINAL: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS)


class Answer:
    """What a cell shows of the final text of a run.

    Args:
        text: all of it.
        expression: what gives all of it in the notebook: ``report.raw``.
        author: who wrote it, ``report · writer``; pages name them.
    """

    def __init__(self, text: str, expression: str, author: str = "") -> None:
        start = mask_start(text, LONGEST_ANSWER)
        self._left_out = max(0, len(text) - LONGEST_ANSWER)
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


def find_many(output: EnsembleOutput) -> TaskOutput | None:
    """The last task that was done, where it runs for each item, and texts may be shown (W25); else None."""
    task = output.get_final_output()
    if task is None or output.trace.capture_mode is CaptureMode.METADATA:
        return None
    return task if task.item_outputs or task.item_failures else None


def find_answer(output: EnsembleOutput | None, expression: str) -> Answer | None:
    """The final text of a run that has completed; None where there is none."""
    if output is None or output.status not in _FINAL or not output.raw.strip():
        return None
    if output.trace.capture_mode is CaptureMode.METADATA:  # no page keeps it
        return None
    task = output.get_final_output()
    run = expression.removesuffix(".raw").removeprefix("_ensemble")
    return Answer(output.raw, expression, "" if task is None else " · ".join(filter(None, [run, task.name])))
