"""The form of a recording: what is written is what is read, and people can read it, too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook import ReplayError
from ensemble_notebook.models.recording.exchange import InlineValue
from ensemble_notebook.models.recording.recording_file import (
    FORMAT,
    HEADER,
    format_document,
    is_recording,
    read_documents,
)

WILD = st.text(st.characters(exclude_categories=()))
LAYOUT = st.text("ab \n\t:#-'\"|>{}[]\\\r\x85\u2028\ufeff\N{FACE WITH ROLLING EYES}\ud83d", max_size=200)
TEXT = WILD | LAYOUT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lesson.yaml"


def contents(path, text):
    path.write_bytes(text.encode())
    return [document.content for document in read_documents(path)]


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    return tmp_path_factory.mktemp("documents") / "lesson.yaml"


@given(text=TEXT, other=TEXT, value=JSON)
def test_any_text_and_value_come_back_as_they_were(shared_path, text, other, value):
    items = [{"x": text, "y": other}, {"x": other, "y": InlineValue(value)}]
    plain = {"text": text, "block": {"text": other}, "items": items, "flat": [text, InlineValue(value)], "end": 1.5}
    expected = plain | {"items": [items[0], {"x": other, "y": value}], "flat": [text, value]}
    assert contents(shared_path, HEADER + format_document(plain) + format_document({"next": text})) == [
        expected,
        {"next": text},
    ]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e300, 2**70, {"k" * 2000: 1}])
def test_odd_numbers_and_keys_come_back(path, value):
    assert contents(path, HEADER + format_document({"value": InlineValue(value)})) == [{"value": value}]


def test_long_texts_stand_line_by_line():
    text = "Rest the steak.\n\n  Then slice it.\n"
    assert format_document({"exchange": 1, "reply": {"text": text, "model": "m"}}) == (
        '---\nexchange: 1\nreply:\n  text: |\n    Rest the steak.\n\n      Then slice it.\n  model: "m"\n'
    )


def test_line_ends_and_mark_of_windows_do_no_harm(path):
    text = HEADER + format_document({"text": "two\nlines", "other": "a\r\nb"})
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert is_recording(path)
    assert [document.content for document in read_documents(path)] == [{"text": "two\nlines", "other": "a\r\nb"}]


def test_documents_know_their_lines(path):
    path.write_text(HEADER + format_document({"a": "x\ny"}) + format_document({"b": 1}))
    lines = path.read_text().splitlines()
    assert [lines[document.line - 1].partition(":")[0] for document in read_documents(path)] == ["a", "b"]


def test_recordings_are_told_from_other_files(path):
    path.write_text(HEADER)
    assert is_recording(path)
    path.write_bytes(b"\xff\xfe notes")
    assert not is_recording(path)


@pytest.mark.parametrize("content", ["", "notes\n", "a: 1\n---\nb: 2\n", "{}"])
def test_other_file_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(ReplayError, match=r"lesson\.yaml, line 1: this is no recording.*Record anew: run\(record='"):
        read_documents(path)


def test_binary_file_is_refused(path):
    path.write_bytes(b"\x00\xff\xfe")
    with pytest.raises(ReplayError, match=r"The recording .*lesson\.yaml can't be read"):
        read_documents(path)


def test_missing_file_and_folder_are_refused(path):
    with pytest.raises(ReplayError, match=r"There is no recording .*lesson\.yaml\. Record anew: run\(record='"):
        read_documents(path)
    with pytest.raises(ReplayError, match="can't be read"):
        read_documents(path.parent)


def test_newer_format_is_refused(path):
    path.write_text(HEADER.replace(f"recording: {FORMAT}", f"recording: {FORMAT + 1}"))
    wrong = rf"line 1: this recording has format {FORMAT + 1}, .* up to {FORMAT}\. Upgrade"
    with pytest.raises(ReplayError, match=wrong):
        read_documents(path)


def test_mistake_of_an_editor_is_found_by_its_line(path):
    path.write_text(HEADER + format_document({"a": 1}) + '---\nb: "open\nc: 1\n' + format_document({"d": 1}))
    with pytest.raises(ReplayError, match=r"lesson\.yaml, line \d+: the recording is broken here"):
        read_documents(path)


def test_file_that_ends_within_a_document_is_said_to(path):
    path.write_text(HEADER + format_document({"a": 1}) + '---\nb: "op')
    with pytest.raises(ReplayError, match=r"line 6: the recording ends in the middle of an exchange"):
        read_documents(path)
