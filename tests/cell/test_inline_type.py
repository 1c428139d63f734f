"""Types written in a cell: words of which one holds, and unions of types (C6a)."""

import pytest

from ensemble_notebook.engine.agent.structured_output import OutputFormat
from tests.support.cell import assert_mistakes, read


def schema(kind):
    cell = read(f"tasks:\n  judge:\n    description: x\n    output_type:\n      field: {kind}")
    return cell.definition.tasks[0].output_type


@pytest.mark.parametrize(
    "kind, good, bad",
    [
        ("billing | technical | other", ["billing", "other"], ["Billing", "", None, 1]),
        ("billing|other", ["billing", "other"], ["billing|other"]),
        ('"billing | it is: odd"', ["it is: odd"], ["odd"]),
        ("1 | 2 | 3", [1, 3], ["1", 4]),
        ("int | str", [1, "one"], [1.5, None, []]),
        ("int | null", [1, None], ["one"]),
        ("billing | other?", ["billing", None], ["other?"]),
        ("int | str?", [1, "one", None], [1.5]),
        ("any | str", [1, None, []], []),
        ("[billing | other]", [[], ["billing", "other"]], [["x"], "billing"]),
        ("{kind: a | b}", [{"kind": "a"}], [{"kind": "c"}, {}]),
    ],
)
def test_alternatives_take_what_they_say_and_nothing_else(kind, good, bad):
    output_format = OutputFormat(schema(kind))
    for value in good:
        assert output_format.accept({"field": value}) == {"field": value}
    for value in bad:
        with pytest.raises(ValueError, match="field"):
            output_format.accept({"field": value})


def test_field_of_alternatives_may_be_missing_only_with_a_question_mark():
    assert schema("a | b")["required"] == ["field"]
    assert schema("a | b?")["required"] == []


@pytest.mark.parametrize(
    "kind, told",
    [
        ("str | billing", r"mixes types \(str\) and words \(billing\)"),
        ("int | strr", r"mixes types \(int\) and words \(strr\)\. Did you mean 'str'\?"),
        ("a | | b", r"has a '\|' with nothing beside it"),
        ("a |", r"has a '\|' with nothing beside it"),
        ("a | b | a", "has 'a' twice"),
        ("a? | b", "belongs behind the last word"),
    ],
)
def test_alternatives_that_can_not_be_meant_are_mistakes(kind, told):
    assert_mistakes(f"tasks:\n  judge:\n    description: x\n    output_type:\n      field: «{kind}»", told)


def test_alternatives_alone_are_told_to_stand_in_a_field():
    cell = "tasks:\n  judge: {description: x, output_type: «yes | no»}"
    assert_mistakes(cell, r"takes fields, and this is the text 'yes \| no' alone")
