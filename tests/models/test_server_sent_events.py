"""Server-sent events as the WHATWG specification has them, and however a network cuts them."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.models.openai.streamed_reply import ServerSentEventDecoder, iterate_event_groups


def decode(*pieces):
    decoder = ServerSentEventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


@pytest.mark.parametrize(
    "stream, data",
    [
        (b"data: {1}\n\ndata: {2}\n\ndata: [DONE]\n\n", ["{1}", "{2}", "[DONE]"]),
        (b"data: {1}\r\n\r\ndata: {2}\r\n\r\n", ["{1}", "{2}"]),
        (b"data: {1}\r\rdata: {2}\r\r", ["{1}", "{2}"]),
        (b"data: a\rdata: b\ndata: c\r\n\n", ["a\nb\nc"]),
        (b"data: a\r\n\n\rdata: b\n\r\n", ["a", "b"]),
        (b": hello\n\nevent: x\nid: 4\ndata:{1}\n\n\n\nretry: 3\n\ndata:{2}\n\n", ["{1}", "{2}"]),
        (b"data: {1}\n\ndata: {2\ndata: }\n\n", ["{1}", "{2\n}"]),
        (b"data\n\ndata\ndata\n\ndata:\n\n", ["", "\n", ""]),
        (b"data:test\n\ndata: test\n\ndata:  test \n\n", ["test", "test", " test "]),
        (b"data: a: b\n\n", ["a: b"]),
        (b"dat: 1\nDATA: 2\ndata : 3\n data: 4\nmydata: 5\n\n", []),
        (b"event: ping\n\n: comment\n\nid\n\nretry: soon\n\n", []),
        (b"\xef\xbb\xbfdata: first\n\n\xef\xbb\xbfdata: second\n\n", ["first"]),
        (b"\xef\xbb\xbf\ndata: a\n\n", ["a"]),
        ("data: für 2 \N{CUT OF MEAT}\n\n".encode(), ["für 2 \N{CUT OF MEAT}"]),
        ("data: a\u2028b\x85c\x0bd\x0ce\x1cf\n\n".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf"]),
        (b"data: a\xffb\xf0\x9f\n\n", ["a\ufffdb\ufffd"]),
        (b"data: a\x00b\n\n", ["a\x00b"]),
        (b"\n\r\n\r\r\n", []),
        (b"", []),
    ],
    ids=[
        *("line feeds", "both", "carriage returns", "mixed in an event", "mixed between events", "other fields"),
        *("two lines", "no value", "one space is taken away", "colon in a value", "unknown fields", "no data"),
        *("byte order mark at the start only", "byte order mark alone", "UTF-8", "line ends of Unicode are text"),
        *("no UTF-8", "null", "blank lines", "nothing"),
    ],
)
def test_stream_is_read_as_the_specification_says(stream, data):
    assert decode(stream) == data
    assert decode(*(stream[at : at + 1] for at in range(len(stream)))) == data


@pytest.mark.parametrize(
    "stream, data",
    [(b"data: {1}\n\ndata: {2}", ["{1}", "{2}"]), (b"data: a\ndata: b\n", ["a\nb"]), (b"data: a\n\n: end", ["a"])],
)
def test_event_that_the_end_cuts_off_is_given_out(stream, data):
    """The specification throws it away; some servers end without a blank line."""
    assert decode(stream) == data


def test_event_comes_as_soon_as_its_blank_line_has_begun():
    decoder = ServerSentEventDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == ["a"]
    assert decoder.feed(b"data: b\r\n\r") == ["b"]
    assert decoder.feed(b"\ndata: c\r\r") == ["c"]
    assert decoder.feed(b"\n") == []
    assert decoder.finish() == []


LINES = st.sampled_from(
    [b"data: a", b"data:", b"data", b": c", b"event: x", b"id: 1", b"", b"", "data: \u00e9\u2028\U0001f969".encode()]
)
STREAMS = st.builds(
    lambda mark, lines: (b"\xef\xbb\xbf" if mark else b"") + b"".join(line + end for line, end in lines),
    st.booleans(),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]))),
)


@given(stream=STREAMS | st.binary(max_size=60), data=st.data())
def test_any_cuts_give_the_same_events(stream, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode(*pieces) == decode(stream)


@given(stream=STREAMS)
def test_line_ends_of_any_kind_give_the_same_events(stream):
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # "\r" before an empty line's "\n" is one line end, so that streams which mix them may mean something else.
    assert decode(plain) == decode(plain.replace(b"\n", b"\r\n")) == decode(plain.replace(b"\n", b"\r"))


def time_of(length):
    pieces = [b"data: ", *[b"x" * 16] * length, b"\n\n"]
    began = time.process_time()
    (event,) = decode(*pieces)
    assert len(event) == 16 * length
    return time.process_time() - began


def test_long_line_in_many_pieces_takes_time_in_proportion():
    once = min(time_of(10_000) for _ in range(3))
    assert min(time_of(80_000) for _ in range(3)) < 8 * once * 4


def test_stream_is_read_while_it_comes():
    sent = []

    async def stream():
        for piece in (b"da", b"ta: a\n\ndata: b\n\nda", b"ta: c"):
            sent.append(piece)
            yield piece

    async def read():
        return [(events, len(sent)) async for events in iterate_event_groups(stream())]

    assert asyncio.run(read()) == [(["a", "b"], 2), (["c"], 3)]
