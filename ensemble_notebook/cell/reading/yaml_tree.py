"""From a cell's text to its tree of nodes, saying everything that is wrong with its YAML (C11, C12).

After a mistake inside one value, that value is read as broken and the text is read again, so that the other mistakes of
the cell show at once (C10). Knows no key of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, quote
from ensemble_notebook.cell.reading.source_text import Place, SourceText
from ensemble_notebook.cell.reading.yaml_nodes import (
    ALIAS,
    DIRECTIVE,
    MOST_CHARACTERS,
    BrokenNode,
    Node,
    NodeComposer,
    ScalarNode,
    describe_brace_pitfall,
)

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
        source = self._source
        for match in _NOT_PRINTABLE.finditer(source.text):
            message = f"the character U+{ord(match[0]):04X} can't stand in a cell."
            hint = "It is invisible here: delete it, and type what is around it again."
            self._report.add_mistake(source.locate(match.start()), message, hint)
            self._text[match.start()] = " "
        for _ in range(attempts):
            composition = NodeComposer(source, "".join(self._text), self._broken)
            try:
                root = composition.run()
            except MisreadError as misread:
                self._report.add_misread(misread)
                break
            except Exception as error:  # noqa: BLE001 - C12: whatever the parser raises, people get a message
                pitfall = explain_error(error, source, composition.last)
                if composition.open_flow is not None:
                    pitfall.entry = read_line_parts(source, source.line_number(composition.open_flow))
            else:
                self._report_all(composition)
                return root
            self._report.add_misread(pitfall)
            if not self._repair(pitfall):
                break
        self._report_all(composition)
        return None

    def _report_all(self, composition: NodeComposer) -> None:
        for misread in composition.mistakes:
            self._report.add_misread(misread)

    def _repair(self, pitfall: PitfallError) -> bool:
        """Overwrite what could not be read; False when there is no way to go on."""
        if pitfall.tab is not None:
            return self._untab(pitfall.tab)
        if pitfall.entry is None or not pitfall.entry.value or pitfall.entry.value_start in self._broken:
            return False
        # its value, and the lines that go on with it, become a text of the same length, so that places stay
        start, end = pitfall.entry.value_start, self._source.line_end(pitfall.entry.line)
        if start > self._source.line_start(pitfall.entry.line):
            self._text[start - 1] = " "
        width = end - start
        self._text[start:end] = "x" * width if width < 3 else '"' + "x" * (width - 2) + '"'
        self._broken.add(start)
        for number in range(pitfall.entry.line + 1, self._source.line_count + 1):
            text = self._source.line(number)
            indent = len(text) - len(text.lstrip())
            if text.strip() and indent <= pitfall.entry.indent and not text.lstrip().startswith(("]", "}")):
                break
            first = self._source.line_start(number)
            self._text[first : first + len(text)] = " " * len(text)
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
                self._report.add_misread(_explain_tab_indent(self._source, number))
        return True


# --- The layout of the lines of a cell --------------------------------------------------------------------------------
#
# Knows neither mistakes nor keys.


_LINE: Final = re.compile(
    r"""(?P<lead>[ ]*(?:-[ ]+)*)
        (?:(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'\[{\#&*!|>%@`,][^\n]*?):(?=[ ]|$)[ ]*)?
        (?P<value>[^\n]*)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class LineParts:
    """One line as ``- key: value``; offsets into the text."""

    line: int
    indent: int
    key: str | None
    value_start: int
    value: str


def read_line_parts(source: SourceText, line: int) -> LineParts:
    """Take a line apart, by its look alone."""
    text = source.line(line)
    match = _LINE.match(text)
    if match is None:
        return LineParts(line, 0, None, source.line_start(line), text)
    column = match.start("key") if match["key"] is not None else max(match["lead"].rfind("-"), 0)
    return LineParts(
        line, column, match["key"], source.line_start(line) + match.start("value"), match["value"].rstrip()
    )


def find_open_levels(source: SourceText, line: int) -> Iterator[tuple[int, int]]:
    """Find the levels that are open above a line, the innermost first: indentation, and a line that has it."""
    least = None
    for number in range(line - 1, 0, -1):
        text = source.line(number)
        indent = len(text) - len(text.lstrip(" "))
        if text.strip() and not text.lstrip().startswith("#") and (least is None or indent < least):
            yield indent, number
            least = indent
        if least == 0:
            return


# --- Explains why a text is not valid YAML, for people who have not learned YAML --------------------------------------
#
# From the parser's error and the text it makes a message with a place and, if the rest can still be read, says which
# value to treat as broken. Knows no key of the language.


_NOT_PRINTABLE: Final = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_QUOTE: Final = "Put the whole value in quotes."
_SECOND_KEY: Final = "': ' inside a value that is not in quotes: YAML takes it for a second key."


class PitfallError(MisreadError):
    """What went wrong, and how the rest can still be read.

    Attributes:
        entry: its value may be read as broken.
        tab: offset of a tab that may be read as a space.
    """

    def __init__(
        self, place: Place, message: str, hint: str = _QUOTE, entry: LineParts | None = None, *, tab: int | None = None
    ) -> None:
        super().__init__(place, message, hint)
        self.entry, self.tab = entry, tab


def explain_error(error: Exception, source: SourceText, last: Node | None) -> PitfallError:
    """Explain an error of the YAML parser.

    Args:
        error: what the parser raised.
        source: the text, as it was written.
        last: the node that was read before it.
    """
    problem, context = str(getattr(error, "problem", "") or ""), str(getattr(error, "context", "") or "")
    at = _get_offset(getattr(error, "problem_mark", None), source)
    if at is None:
        line = source.line_number(last.end if last is not None else 0)
        # the parser itself gave up, e.g. on a character number that does not exist
        message = f"YAML can't be read from here on ({type(error).__name__})."
        hint = "Look for odd escapes such as \\U00110000 and for stray signs."
        return PitfallError(source.locate_line(line), message, hint)
    text = source.text.lstrip()
    if text.startswith("%"):  # in front of everything: a second magic, mostly
        place = source.locate_line(source.line_number(len(source.text) - len(text)))
        return PitfallError(place, DIRECTIVE, "Put magics above %%ensemble; put texts in quotes.")
    opened = _get_offset(getattr(error, "context_mark", None), source)
    start = at if opened is None else opened
    if "quoted scalar" in context and ("end of stream" in problem or "document separator" in problem):
        return _explain_unclosed_quote(source, start)
    if "cannot start any token" in problem:
        return _explain_bad_start(source, at)
    if "mapping values are not allowed" in problem:
        return _explain_colon(source, at, last)
    if "could not find expected ':'" in problem:
        return _explain_no_colon(source, start)
    if "flow" in context:
        return _explain_flow(source, at, start, problem)
    if "expected <block end>" in problem:
        return _explain_block(source, at, last, problem)
    if "<document start>" in problem:
        return _explain_outside(source, at)
    return _explain_other(source, at, start, problem)


def _get_offset(mark: Any, source: SourceText) -> int | None:
    return None if mark is None else min(int(mark.index), len(source.text))


def _explain_value(source: SourceText, entry: LineParts, message: str, hint: str = _QUOTE) -> PitfallError:
    """Explain a mistake about the whole value of an entry."""
    return PitfallError(source.locate(entry.value_start, entry.value_start + len(entry.value)), message, hint, entry)


def _explain_unclosed_quote(source: SourceText, start: int) -> PitfallError:
    line = source.line_number(start)
    mark = source.text[start : start + 1]
    hint = f"End the text with {mark}. Inside '...' an apostrophe is written twice: ''."
    message = f"the quote {mark} that starts here is never closed."
    return PitfallError(source.locate(start, source.line_end(line)), message, hint, read_line_parts(source, line))


def _explain_bad_start(source: SourceText, at: int) -> PitfallError:
    line, character = source.line_number(at), source.text[at : at + 1]
    entry = read_line_parts(source, line)
    if character == "\t":
        if source.text[source.line_start(line) : at].strip():
            hint = "Replace the tab with a space."
            return PitfallError(source.locate(at), "there is a tab where YAML wants a space.", hint, tab=at)
        return _explain_tab_indent(source, line)
    message = f"a value can't start with {character!r} in YAML."
    is_value = entry.value_start == at
    return _explain_value(source, entry, message) if is_value else PitfallError(source.locate(at), message, entry=entry)


def _explain_tab_indent(source: SourceText, line: int) -> PitfallError:
    text, start = source.line(line), source.line_start(line)
    place = source.locate(start, start + len(text) - len(text.lstrip()))
    message = "this line is indented with a tab; YAML wants spaces."
    return PitfallError(place, message, "Use two spaces for each level.", tab=start)


def _explain_colon(source: SourceText, at: int, last: Node | None) -> PitfallError:
    """Explain a colon where no key can stand: inside a value, or on a line that continues a value."""
    line = source.line_number(at)
    entry = read_line_parts(source, line)
    if entry.key is not None and entry.value_start <= at:
        if entry.value.startswith("{"):
            return _explain_value(source, entry, *describe_brace_pitfall(entry.value))
        return PitfallError(source.locate(at), _SECOND_KEY, entry=entry)
    above = read_line_parts(source, source.line_number(last.start)) if last is not None else entry
    if above.line < line:
        if glued := _explain_glued(source, above):
            return glued
        if above.key is None:
            return _explain_keyless(source, above.line)
    return _explain_misplaced(source, line)


def _explain_no_colon(source: SourceText, start: int) -> PitfallError:
    """Explain a line that is neither a key with its value nor a list item."""
    line = source.line_number(start)
    return _explain_glued(source, read_line_parts(source, line)) or _explain_keyless(source, line)


def _explain_glued(source: SourceText, entry: LineParts) -> PitfallError | None:
    """`key:value` or `-item` without the space."""
    text = source.line(entry.line)
    match = re.match(r"[ ]*(?:-[ ]+)*(?:(?P<key>[A-Za-z_]+):(?!//)(?=\S)|(?P<dash>-)(?=[^\s\-\d]))", text)
    if match is None or entry.key is not None:
        return None
    at = source.line_start(entry.line) + match.end()
    what, sample = ("':'", f"{match['key']}: ...") if match["key"] else ("'-'", "- ...")
    rest = LineParts(entry.line, entry.indent, match["key"], at + 1, text[match.end() + 1 :].rstrip())
    return PitfallError(source.locate(at - 1), f"a space is missing after {what}.", f"Write `{sample}`.", rest)


def _explain_keyless(source: SourceText, line: int) -> PitfallError:
    item = re.match(r"( *- +)([^\s-].*)", source.line(line))
    below = next((text for each in range(line + 1, source.line_count + 1) if (text := source.line(each)).strip()), "")
    message = "this line has no ': ' and is no list item."
    hint = "Write `key: value` or `- item`; indent the line deeper if it goes on with the text above."
    if item is not None and re.match(rf" {{{source.line(line).index('-') + 1},}}[A-Za-z_]+:", below):
        message = "this list item is a text, and has a key below it."
        sample = f"`- description: {item[2].strip()}`"
        hint = f"Give it a key, too; of a task: {sample}, with the others below `description`."
    return PitfallError(source.locate_line(line), message, hint)


def _explain_misplaced(source: SourceText, line: int) -> PitfallError:
    levels = [f"column {indent + 1} (line {number})" for indent, number in find_open_levels(source, line)]
    could = f"; it could be {' or '.join(levels[:4])}" if levels else ""
    hint = f"Lines that belong together start in the same column{could}."
    return PitfallError(source.locate_line(line), "the indentation of this line fits no line above it.", hint)


def _explain_flow(source: SourceText, at: int, opened: int, problem: str) -> PitfallError:
    """Inside [...] or {...}."""
    line, first = source.line_number(at), source.line_number(opened)
    entry, bracket = read_line_parts(source, first), source.text[opened : opened + 1]
    before = source.text[:at].rstrip()
    if before.endswith("}") and (start := before.rfind("{")) >= source.line_start(line):  # `{topic}` and more text
        return PitfallError(source.locate(start, len(before)), *describe_brace_pitfall(before[start:]), entry)
    is_inside = line == first or read_line_parts(source, line).indent > entry.indent
    if is_inside and at < source.line_end(line) and "stream end" not in problem:
        found = source.text[at : at + 1]
        message = f"YAML can't go on here: a comma or a closing bracket is missing before {found!r}, or a value is."
        hint = "Inside [...] and {...}, put texts in quotes."
        return PitfallError(source.locate(at), _SECOND_KEY if found == ":" else message, hint, entry)
    if bracket not in ("[", "{"):
        bracket, opened = entry.value[:1], entry.value_start
    hint = f"Add the {({'[': ']', '{': '}'}).get(bracket, 'bracket')}."
    return PitfallError(source.locate(opened), f"the {bracket!r} that is opened here is never closed.", hint, entry)


def _explain_block(source: SourceText, at: int, last: Node | None, problem: str) -> PitfallError:
    """Something follows a finished value, or a line stands at no level."""
    line = source.line_number(at)
    entry, place = read_line_parts(source, line), source.locate_line(line)
    is_text = isinstance(last, ScalarNode | BrokenNode) and source.text[last.start : last.start + 1] in ("'", '"')
    if last is not None and is_text and source.line_number(last.start) < line <= source.line_number(last.end):
        return _explain_unclosed_quote(source, last.start)  # most likely its own last quote is gone
    if entry.value_start < at:
        start, rest = entry.value[:1], source.locate(at, source.line_end(entry.line))
        if start == "{":
            return _explain_value(source, entry, *describe_brace_pitfall(entry.value))
        if start == "*":
            return _explain_value(source, entry, ALIAS)
        inside = {"'": "Inside '...' an apostrophe is written twice: ''.", '"': 'Inside "..." write \\" for ".'}
        if start in inside:
            return PitfallError(rest, f"there is more text after the closing {start}.", inside[start], entry)
        is_list = start == "["
        message = "there is more text after the closing ]." if is_list else "YAML can't read this part of the line."
        return PitfallError(rest, message, entry=entry)
    if isinstance(last, ScalarNode) and last.is_block and "scalar" in problem:
        hint = "Indent every line of the text at least as deep as its first one."
        return PitfallError(place, "this line is indented less than the text it belongs to.", hint)
    if "'?'" in problem or "'-'" in problem:
        hint = "A level holds either `key: value` lines or `- item` lines."
        return PitfallError(place, "list items and keys are mixed on one level here.", hint)
    if "scalar" in problem and entry.key is None:
        return _explain_no_colon(source, at)
    return _explain_misplaced(source, line)


def _explain_outside(source: SourceText, at: int) -> PitfallError:
    """Something behind the end of the whole."""
    text, line = source.text.lstrip(), source.line_number(at)
    if text.startswith("{") and line == source.line_number(len(source.text) - len(text)):
        return _explain_value(source, read_line_parts(source, line), *describe_brace_pitfall(text))
    return _explain_misplaced(source, line)


def _explain_other(source: SourceText, at: int, start: int, problem: str) -> PitfallError:
    entry = read_line_parts(source, source.line_number(start))
    if "sequence entries" in problem:
        hint = "Start the list on the next line, or write it in brackets: [a, b]."
        return _explain_value(source, entry, "a list can't start on the line of its key.", hint)
    if "mapping keys" in problem:
        return _explain_value(source, entry, "a value can't start with '? ' in YAML.")
    if "escape" in problem or "hexdecimal" in problem or "hexadecimal" in problem:
        hint = "Write \\\\ for a backslash, or use '...', where it is an ordinary character."
        return PitfallError(source.locate(max(at - 1, 0), at + 1), 'inside "..." this is no escape.', hint, entry)
    if entry.value[:1] in ("|", ">"):
        hint = f"Start the text on the next line, or put it in quotes if {entry.value[0]} belongs to it."
        return _explain_value(source, entry, f"after {entry.value[0]!r} the line must end.", hint)
    if "node content" in problem:
        return _explain_value(source, entry, f"a value can't start with {source.text[at : at + 1]!r} in YAML.")
    return PitfallError(source.locate(at), f"this is no YAML: {quote(problem, 100)}", entry=entry)
