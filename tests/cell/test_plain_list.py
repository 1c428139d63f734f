"""A list of one-line texts is read without the parser, as the parser would read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.yaml_nodes import NodeComposer, find_plain_items

WORDS = st.text("abcXYZé日09  {}[](),.;!?'\"/&%+=*-_", max_size=30)
NO_ITEMS = ["", "\n", "- a: b", "- a #b", "- 'a'", "- {a}", "-a", "- a \n", "- a\n  b", "- a\n\n- b", "x: y", "- a\tb"]


@given(st.lists(st.tuples(st.sampled_from("aZé"), WORDS), min_size=1, max_size=4), st.sampled_from(["", "\n"]))
def test_a_plain_list_comes_out_as_the_parser_reads_it(items, end):
    text = "\n".join(f"- {first}{rest}".rstrip() for first, rest in items) + end
    assert find_plain_items(text) is not None
    parsed = NodeComposer(SourceText(text), text, broken=[-1]).run()  # the parser, as after any mistake
    assert repr(NodeComposer(SourceText(text), text).run()) == repr(parsed)


@pytest.mark.parametrize("text", [*NO_ITEMS, "- é\x85", "- a\r\n- b"], ids=repr)
def test_whatever_else_may_mean_something_is_left_to_the_parser(text):
    assert find_plain_items(text) is None
