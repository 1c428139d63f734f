"""From a cell's text to its tree of nodes, saying everything that is wrong with its YAML (C11, C12).

After a mistake inside one value, that value is read as broken and the text is read again, so that the other mistakes of
the cell show at once (C10). Knows no key of the language.
"""

from __future__ import annotations

from typing import Final

from ensemble_notebook.cell.text.line_layout import LineParts
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport
from ensemble_notebook.cell.text.yaml_nodes import MOST_CHARACTERS, Node, NodeComposer
from ensemble_notebook.cell.text.yaml_pitfalls import Pitfall, describe_tab_indent, explain_error, find_unprintable

_MOST_ATTEMPTS: Final = 25
_MOST_READ: Final = 400_000


def read_tree(report: MistakeReport, part: range | None = None) -> Node | None:
    """Read the tree of the reported source, or None when there is none; what is wrong has been reported.

    Args:
        report: has the source, and gets the mistakes.
        part: the offsets that are read; None for all.
    """
    size = len(report.source.text)
    if size > MOST_CHARACTERS:
        message = f"this cell has {size:,} characters; {MOST_CHARACTERS:,} is the most."
        report.add_mistake(report.source.top, message, "Load large data in Python and use it as an input: {name}.")
        return None
    return _TreeReader(report, part).run(max(1, min(_MOST_ATTEMPTS, _MOST_READ // max(size, 1))))


class _TreeReader:
    """Attempts to read one text; what can't be read is overwritten, without moving anything, before the next."""

    def __init__(self, report: MistakeReport, part: range | None) -> None:
        self._report, self._source = report, report.source
        self._text = list(self._source.text)
        if part is not None:  # what is not read is blank, so that everything keeps its place
            blank = ["\n" if each == "\n" else " " for each in self._text]
            self._text = blank[: part.start] + self._text[part.start : part.stop] + blank[part.stop :]
        self._broken: set[int] = set()

    def run(self, attempts: int) -> Node | None:
        for offset, misread in find_unprintable(self._source):
            self._report.add_misread(misread)
            self._text[offset] = " "
        for _ in range(attempts):
            composition = NodeComposer(self._source, "".join(self._text), self._broken)
            found = self._attempt(composition)
            if not isinstance(found, Pitfall):
                return found
            self._report.add_misread(found.mistake)
            if not self._repair(found):
                break
        self._report_all(composition)
        return None

    def _attempt(self, composition: NodeComposer) -> Node | Pitfall | None:
        try:
            root = composition.run()
        except MisreadError as misread:
            return Pitfall(misread)
        except Exception as error:  # noqa: BLE001 - C12: whatever the parser raises, people get a message
            return explain_error(error, self._source, composition.last, composition.open_flow)
        self._report_all(composition)
        return root

    def _report_all(self, composition: NodeComposer) -> None:
        for misread in composition.mistakes:
            self._report.add_misread(misread)

    def _repair(self, pitfall: Pitfall) -> bool:
        """Overwrite what could not be read; False when there is no way to go on."""
        if pitfall.tab is not None:
            return self._untab(pitfall.tab)
        if pitfall.entry is None or not pitfall.entry.value or pitfall.entry.value_start in self._broken:
            return False
        self._break(pitfall.entry)
        return True

    def _untab(self, offset: int) -> bool:
        """Read a tab as a space. In indentation only where tabs alone indent, so that the levels stay what they are."""
        line = self._source.line_number(offset)
        if offset > self._source.line_start(line):
            self._text[offset] = " "
            return True
        for number in range(1, self._source.line_count + 1):
            text = self._source.line(number)
            indent = text[: len(text) - len(text.lstrip())]
            if text.strip() and indent.strip("\t"):
                return False
        for number in range(line, self._source.line_count + 1):
            text, start = self._source.line(number), self._source.line_start(number)
            tabs = len(text) - len(text.lstrip("\t"))
            self._text[start : start + tabs] = " " * tabs
            if tabs and text.strip():
                self._report.add_misread(describe_tab_indent(self._source, number))
        return True

    def _break(self, entry: LineParts) -> None:
        """Overwrite the value of an entry, and the lines that go on with it, with a text of the same length."""
        start, end = entry.value_start, self._source.line_end(entry.line)
        if start > self._source.line_start(entry.line):
            self._text[start - 1] = " "
        width = end - start
        self._text[start:end] = "x" * width if width < 3 else '"' + "x" * (width - 2) + '"'
        self._broken.add(start)
        for number in range(entry.line + 1, self._source.line_count + 1):
            text = self._source.line(number)
            indent = len(text) - len(text.lstrip())
            if text.strip() and indent <= entry.indent and not text.lstrip().startswith(("]", "}")):
                break
            first = self._source.line_start(number)
            self._text[first : first + len(text)] = " " * len(text)
