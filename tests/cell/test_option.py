"""The options on the first line of a cell."""

from pathlib import Path

import pytest

from ensemble_notebook.cell.reading.options import Options, format_option_help, parse_options
from ensemble_notebook.domain.definitions.enums import CaptureMode, Workflow
from ensemble_notebook.errors import ValidationError


def refusal(line: str) -> str:
    with pytest.raises(ValidationError) as caught:
        parse_options(line)
    return str(caught.value)


def test_no_options_bind_the_output_to_the_fixed_name():
    assert parse_options("") == Options(out="_ensemble")


def test_every_option_has_its_place():
    line = (
        "-o report -i a=1 --llm local --workflow HIERARCHICAL --capture full --budget '$1, 5 calls' --name team "
        "--timeout 2.5 --record talk.jsonl --reuse --only brief --map rows -b --no-timeline"
    )
    assert parse_options(line) == Options(
        out="report",
        inputs={"a": "1"},
        llm="local",
        workflow=Workflow.HIERARCHICAL,
        capture=CaptureMode.FULL,
        budget="$1, 5 calls",
        name="team",
        timeout=2.5,
        record=Path("talk.jsonl"),
        reuse=True,
        only="brief",
        map="rows",
        is_background=True,
        has_timeline=False,
    )


@pytest.mark.parametrize("spelling", ["-b", "--bg", "--background"])
def test_background_has_three_spellings(spelling):
    assert parse_options(spelling).is_background


@pytest.mark.parametrize(
    "line, value",
    [
        ('-i topic="tidal energy"', "tidal energy"),
        ("-i 'topic=tidal energy'", "tidal energy"),
        ("--input=topic=a=b", "a=b"),
        (r"-i topic=C:\new", r"C:\new"),
        ("-i topic={other}", "{other}"),
        ("-i topic=", ""),
    ],
)
def test_input_keeps_its_value_as_typed(line, value):
    assert parse_options(line).inputs == {"topic": value}


def test_only_what_is_given_overrides_the_cell():
    assert parse_options("--llm local").overrides == {"llm": "local"}


def test_what_belongs_to_the_ensemble_overrides_the_cell():
    options = parse_options("--capture off --budget 'my_budget' --workflow parallel --replay talk.jsonl")
    assert options.overrides == {
        "capture_mode": CaptureMode.OFF,
        "budget": "my_budget",
        "workflow": Workflow.PARALLEL,
    }
    assert options.replay == Path("talk.jsonl")


@pytest.mark.parametrize(
    "line, told",
    [
        ("--otu report", "unknown option '--otu'. Did you mean '--out'?"),
        ("--timelin", "Did you mean '--no-timeline'?"),
        ("-x", "unknown option '-x'."),
        ("report", "'report' belongs to no option"),
        ("-o", "expected one argument"),
        ("-o 1st", "'1st' is no name for a variable"),
        ("-o class", "'class' is no name for a variable"),
        ("-o a -o b", "-o is given twice"),
        ("-i topic", "-i wants NAME=VALUE, got 'topic'"),
        ("-i a-b=1", "'a-b' can't be a template variable"),
        ("-i a=1 -i a=2", "the input 'a' is given twice"),
        ('-i a="1', "a quote is opened and not closed"),
        ("--timeout soon", "must be seconds > 0, got 'soon'"),
        ("--timeout nan", "must be seconds > 0, got 'nan'"),
        ("--workflow paralel", "can't be 'paralel'. Did you mean 'parallel'?"),
        ("--capture ful", "can't be 'ful'. Did you mean 'full'?"),
        ("--budget 3", "'3' is no limit: it needs a currency, 'tokens' or 'calls'. Write limits such as $0.50"),
        ("--budget '20k tokns'", "'tokns' can't be limited. Did you mean 'tokens'?"),
        ("--budget 'some money'", "is no limit"),
        ("--record a --replay b", "not allowed with argument --record"),
        ("--replay ' '", "must not be blank"),
        ("--budgt 3", "Did you mean '--budget'?"),
        ("--dry-run -b", "not allowed with argument"),
        ("--name ' '", "must not be blank"),
    ],
)
def test_mistake_says_what_is_wrong_and_names_the_nearest(line, told):
    assert told in refusal(line)


def test_help_has_every_option_and_examples():
    told = format_option_help()
    for word in (
        *("--out", "--input", "--llm", "--workflow", "--capture", "--budget", "--dry-run", "--define", "--timeout"),
        *("--record", "--replay", "%%ensemble -b"),
    ):
        assert word in told


def test_value_that_is_varied_may_be_called_by_a_word():
    line = "--vary 'style@short=In one line' --vary style=long --vary llm@here=openai:m@http://x/v1"
    assert parse_options(line).vary == {
        "style": {"short": "In one line", "long": "long"},
        "llm": {"here": "openai:m@http://x/v1"},
    }
    for wrong, said in (
        ("--vary style@a=x --vary style@a=y", "two values of style are called 'a'"),
        ("--vary style@a=x --vary style@b=x", "style@b=x is given twice"),
        ("--vary style@=x", "'style@' can't be a template variable"),
    ):
        with pytest.raises(ValidationError, match=said):
            parse_options(wrong)
