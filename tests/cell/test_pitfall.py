"""What people trip over in YAML has messages of its own, in the exact place (C11)."""

import pytest

from tests.support.cell import assert_mistakes, mistakes_of, read

PITFALLS = {
    "brace at the start": ("tasks:\n  - «{topic} facts»", "starts with '{topic}' is a mapping"),
    "brace alone": ("- «{topic}»", "starts with '{topic}' is a mapping"),
    "double braces": ("- «{{topic}} x»", "starts with '{{topic}}' is a mapping"),
    "brace after a key": ("- description: «{topic} facts»", "is a mapping for YAML"),
    "brace in a flow mapping": ("tasks: {a: {description: «{topic}» x}}", "is a mapping for YAML"),
    "brace and colon": ("- description: «{topic}: x»", "is a mapping for YAML"),
    "colon in a description": ("- description: Note«:» this", "': ' inside a value"),
    "colon in a flow mapping": ("tasks: {a: {description: Note«:» this}}", "': ' inside a value"),
    "colon in an item": ("- a\n- «Note this»: well", "Put the text in quotes if ': ' belongs to it"),
    "double quote unclosed": ('- a\n- «"b»\n- c', 'quote " that starts here is never closed'),
    "single quote unclosed": ("tasks:\n  a: «'b»\n  c: d", "quote ' that starts here is never closed"),
    "quote closed by the next": ('tasks:\n  a: «"b»\n  c: "d"', "never closed"),
    "apostrophe in single quotes": ("- 'it'«s me'»", "more text after the closing '"),
    "text after double quotes": ('- "a" «b»', 'more text after the closing "'),
    "tab indents": ("tasks:\n«\t»a: x", "indented with a tab"),
    "tab after the dash": ("-«\t»a", "tab where YAML wants a space"),
    "tab after the colon": ("tasks:\n  a:«\t»x", "tab where YAML wants a space"),
    "at": ("- «@home»", "can't start with '@'"),
    "backtick": ("- «`ls`»", "can't start with '`'"),
    "percent": ("- «%s»", "can't start with '%'"),
    "star": ("- «*bold*»", r"starts with '\*' is an alias"),
    "star with more": ("- «*bold* text»", r"starts with '\*' is an alias"),
    "ampersand": ("- «&a» b", "starts with '&' is an anchor"),
    "exclamation": ("- «!a» b", "starts with '!' is a tag"),
    "python tag": ("- «!!python/object/apply:os.system» [ls]", "is a tag"),
    "question mark": ("tasks:\n  a: «? b»", r"can't start with '\? '"),
    "comma": ("tasks:\n  a: «, b»", "can't start with ','"),
    "closing bracket": ("tasks:\n  a: «]»", "can't start with ']'"),
    "open list": ("tasks: «[»a, b\nllm: local", r"'\[' that is opened here is never closed"),
    "open mapping": ("tasks: «{»a: x\nllm: local", "'{' that is opened here is never closed"),
    "text after a list": ("tasks: [a] «b»", "more text after the closing ]"),
    "no comma": ("tasks: {a: {description: x agent«:» y}}", "': ' inside a value"),
    "list on the line of its key": ("tasks: «- a»", "a list can't start on the line of its key"),
    "block scalar with text": ("- a\n- «| text»", "after '|' the line must end"),
    "block scalar dedented": ("- a\n- |\n   one\n «two»", "indented less|space|no ': '"),
    "escape": (r'- "a «\q» b"', "this is no escape"),
    "no space after colon": ("tasks:\n  a:\n    description«:»x\n    agent: y", "space is missing after ':'"),
    "no space after colon alone": ("tasks: ['goal«:»x', b]".replace("'", ""), "space is missing after ':'"),
    "no space after dash": ("- a\n«-»b\n- c", "space is missing after '-'"),
    "no space after any dash": ("«-a»\n-b", "one text, not tasks"),
    "key below a text": ("- Ask\n«- Find facts»\n  tools: x", "list item is a text, and has a key below it"),
    "key below a text, deeper": ("tasks:\n  «- Find»\n\n    tools: x", "list item is a text, and has a key below it"),
    "no colon": ("agents:\n  «Ann»\n    goal: x", "no ': ' and is no list item"),
    "line at no level": ("tasks:\n  a: x\n «b: y»", "fits no line above"),
    "line too deep": ("tasks:\n  a: x\n    «b: y»", "fits no line above"),
    "first line too deep": (" - a\n«- b»", "fits no line above"),
    "item too deep": ("- a\n  «- b»", "belongs to the text above"),
    "items and keys mixed": ("tasks:\n  - a\n  «b: c»", "mixed on one level"),
    "second document": ("- a\n«---»\n- b", "a second document"),
    "directive": ("«%YAML 1.1»\n---\n- a", "directive"),
    "directive alone": ("«%foo»\n- a", "directive"),
    "not printable": ("- a«\x07»b", r"U\+0007 can't stand"),
    "half a character": (r'- «"\ud800"»', "lone surrogate"),
    "no key": ("tasks: [a]\n«:» x", "no key before"),
    "key that is a list": ("tasks: [a]\n? «[a]»\n: x", "a key must be a text"),
    "key that is a brace": ("«{topic}»: x", "is a mapping for YAML"),
    "invisible character in a key": ("tasks: [{description: a, «agent\u200b»: x}]", r"invisible character U\+200B"),
    "duplicate key": ("llm: local\ntasks: [a]\n«llm»: scripted", "'llm' stands twice; the first one is in line 1"),
    "duplicate agent": ("agents: {A: {goal: g}, «A»: {goal: h}}\ntasks: [a]", "'A' stands twice"),
    "number as description": ("- «5»", "takes a text, and this is the number 5"),
    "flag as name": ("tasks: [a]\nname: «true»", "takes a text, and this is the value true"),
    "null as description": ("- «null»", "takes a text, and this is null"),
    "yes as flag": ("verbose: «yes»\ntasks: [a]", "true or false"),
    "quoted flag": ('verbose: «"true"»\ntasks: [a]', "true or false"),
    "text as number": ("max_concurrency: «two»\ntasks: [a]", "takes a whole number"),
    "quoted number": ('max_concurrency: «"2"»\ntasks: [a]', "takes a whole number"),
    "half a number": ("max_concurrency: «2.5»\ntasks: [a]", "whole number >= 1, got 2.5"),
    "too small": ("max_concurrency: «0»\ntasks: [a]", "whole number >= 1, got 0"),
    "unit in seconds": ("- {description: a, timeout: «5s»}", "takes a number of seconds"),
    "endless seconds": ("- {description: a, timeout: «.inf»}", "takes a number of seconds"),
    "wrong word": ("workflow: «paralel»\ntasks: [a]", r"Did you mean 'parallel'\?"),
    "names without brackets": (
        'tasks: {b: y, a: {description: x, context: «"b, c"»}}',
        "takes a name, or a list of names",
    ),
    "list for a text": ("- {description: «[a, b]»}", "takes a text, and this is a list"),
    "mapping for a list": ("- {description: x, context: «{a: b}»}", "takes a name, or a list of names"),
    "list for a mapping": ("inputs: «[a]»\ntasks: [a]", "takes a mapping, and this is a list"),
    "text for an agent": ("agents: {A: «goal»}\ntasks: [a]", "takes a mapping with a goal"),
    "text for tasks": ("tasks: «a»", "takes a list or a mapping of tasks"),
    "list for a task": ("- «[a]»", "takes a text or a mapping, and this is a list"),
    "text for a phase": ("phases: {p: «a»}", "takes a list or a mapping of tasks"),
    "name twice in a list": ("tasks: {a: x, b: {description: y, context: [a, «a»]}}", "'a' stands twice"),
    "blank text": ('- «""»', "must not be blank"),
    "no value": ("«llm»:\ntasks: [a]", "'llm' of the cell has no value"),
    "no value before a comment": ("«llm»: # local\ntasks: [a]", "has no value"),
    "no value in a task": (
        "tasks:\n  a:\n    description: x\n    «agent»:\n  b: y",
        "'agent' of task 'a' has no value",
    ),
    "task without value": ("tasks:\n  «a»:\n  b: y", "task 'a' has no value"),
    "item without value": ("- a\n-«»\n- b", "task 2 has no value"),
    "stray key": ("tasks:\n  a: x\n  «agent»: B", "is a word of the cell language"),
}


@pytest.mark.parametrize("name", PITFALLS)
def test_pitfall_has_its_message_in_its_place(name):
    text, pattern = PITFALLS[name]
    assert_mistakes(text, pattern)


def test_hash_that_swallows_text_is_a_warning():
    (notice,) = read("- Fix issue #12 today").notices
    assert (notice.line, notice.column, notice.is_warning) == (1, 13, True)
    assert "'#12 today' is a comment" in notice.message


def test_comment_with_a_space_is_a_comment():
    assert read("- Fix it # today\n").notices == ()


def test_all_tabs_are_shown_and_what_they_indent_is_read():
    text = "agents:\n«\t»A:\n«\t\t»«gaol»: x\ntasks:\n«\t»- a\n"
    assert_mistakes(text, "tab", "tab", "unknown key", "tab")


def test_value_with_lines_below_is_left_out_whole():
    text = "tasks:\n  a:\n    description: it«:» is\n      still the same\n    «agnt»: x\n  b: y\n"
    assert_mistakes(text, "': ' inside", r"Did you mean 'agent'\?")


def test_open_bracket_over_lines_does_not_hide_what_follows():
    text = "tasks:\n  a: {description: x,\n    agent: it«:» y\n  }\n  b: {description: z, «agnt»: x}\n"
    assert_mistakes(text, "': ' inside", "unknown key 'agnt'")


def test_texts_of_every_style_are_read_whole():
    text = "tasks:\n  a: 'it''s: \"{b}\" # c'\n  d: |\n    two: lines\n    - of text\n  e: >-\n    folded\n    text\n"
    descriptions = [node.task.description for node in read(text, {"b": 1}).graph.tasks]
    assert descriptions == ['it\'s: "{b}" # c', "two: lines\n- of text", "folded text"]


def test_byte_order_mark_is_ignored():
    assert read("\ufefftasks: [a]").plan.total_tasks == 1


def test_one_document_mark_is_fine():
    assert read("---\n- a\n...\n").plan.total_tasks == 1


def test_a_key_below_a_text_is_answered_with_the_form_to_write():
    (mistake,) = mistakes_of("- Find facts\n  tools: x\n")
    assert "`- description: Find facts`" in mistake.hint
