"""Where two requests differ, as a person is shown it."""

import pytest

from ensemble_notebook.models.recording.exchange import CancelledRequest, RecordedExchange, RequestPart
from ensemble_notebook.models.recording.replayer import describe_difference, find_nearest

LONG = "Season the steak, and let it lie on the board until it is no longer cold inside."


def request(*, system="You are a cook.", user="Cook a steak.", more=()):
    parts = (("model", "m"), ("system message", system), ("user message", user), *more)
    return tuple(RequestPart(*part) for part in parts)


def recorded(number, asked):
    return RecordedExchange(number=number, request=asked, outcome=CancelledRequest(), pieces=(), seconds=0.0)


def test_one_character_is_shown_where_it_is():
    then = request(user=f"First.\n{LONG}\nLast.")
    now = request(user=f"First.\n{LONG.replace('board', 'beard')}\nLast.")
    assert describe_difference(now, then) == (
        "the user message differs in line 2:\n"
        "  recorded: '...n the steak, and let it lie on the board until it is no longer cold insi...'\n"
        "  now:      '...n the steak, and let it lie on the beard until it is no longer cold insi...'\n"
        "                                                    ^"
    )


@pytest.mark.parametrize(
    "then, now, place",
    [
        ("steak ", "steak", "'steak '"),
        ("a steak", "a\N{NO-BREAK SPACE}steak", r"'a\xa0steak'"),
        ("a\tsteak", "a    steak", r"'a\tsteak'"),
        ("steak", "steak\n", r"'steak\n'"),
        ("", "steak", "''"),
    ],
)
def test_what_can_not_be_seen_is_written_out(then, now, place):
    assert place in describe_difference(request(user=now), request(user=then))


def test_mark_stands_below_the_place():
    *_, now, mark = describe_difference(request(user="Cook a steam."), request(user="Cook a steak.")).splitlines()
    assert now[mark.index("^")] == "m"


def test_line_is_that_of_the_place():
    assert "line 3:" in describe_difference(request(user="a\nb\nC"), request(user="a\nb\nc"))


def test_first_of_several_parts_is_shown_and_the_others_are_counted():
    text = describe_difference(request(system="You are a chef.", user="Bake."), request())
    assert text.startswith("the system message differs in line 1 (1 other part differs):")


def test_parts_that_one_of_them_lacks_are_named():
    tool = ("schema of the tool search", "{}")
    assert describe_difference(request(more=[tool]), request()) == (
        "the recording has nothing more where now is the schema of the tool search"
    )
    assert describe_difference(request(), request(more=[tool])) == (
        "the recording has the schema of the tool search where now is nothing more"
    )
    other = ("schema of the reply", "{}")
    assert "has the schema of the reply where now is the schema of the tool search" in describe_difference(
        request(more=[tool]), request(more=[other])
    )


def test_nearest_has_the_most_in_common():
    exchanges = [
        recorded(1, request(system="You are an editor.", user="Cook a steal.")),
        recorded(2, request(user="Cook a stew, and then something else.")),
        recorded(3, request(user="Cook a steak!")),
        recorded(4, request(user="Cook a steak?")),
    ]
    assert find_nearest(request(), exchanges).number == 3
    assert find_nearest(request(), []) is None
