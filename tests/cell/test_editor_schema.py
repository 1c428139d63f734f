"""The schema for editors says what the reader says, as far as data goes: held against the reader itself (C22)."""

import json
from collections import Counter
from pathlib import Path

import jsonschema_rs
import pytest

import ensemble_notebook
from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError, MistakeReport
from ensemble_notebook.cell.reading.section_reader import SectionReader
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.values import to_plain_value
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, ScalarNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.cell.vocabulary import ValueKind
from ensemble_notebook.cell.writing.editor_schema import FAMILIAR_FORMS, make_editor_schema, write_editor_schema
from tests.cell.test_guide import EXAMPLES
from tests.cell.test_mutation import CELLS, keys_of_language, lines_of, with_line

FILE = Path(ensemble_notebook.__file__).parent / "ensemble-cell.schema.json"
SCHEMA = make_editor_schema()
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)

READ = [
    "[Research it, {description: Write it, expected_output: A page}]",
    "tasks: {1: Do it now, b: {description: Read it, context: [1]}, c: {description: Read, context: b}}",
    "{errorStrategy: Fail_Fast, process: PARALLEL, tasks: [Do it]}",
    "{tasks: {a: Do it, review: Look at it}}",
    "{tasks: {a: {description: Do it, asyncExecution: true, human_input: true, maxOutputRetries: 2}}}",
    "{agents: {A: {goal: g, backstory: b, max_rpm: 9, maxIter: 2}}, tasks: [{description: d, agent: A}]}",
    "{agents: [{role: A, goal: g}], tasks: [{description: d, agent: A, fallback: {role: B, goal: g}}]}",
    "{tasks: {a: {description: d, timeout: null, review: [before, {timing: AFTER, timeout: null}]}}}",
    "{llm: {model: local, temperature: 0, stop: [END], schema_mode: native}, tasks: [Do it]}",
    "{cost: {inputRate: 1, output_rate: 2}, tasks: [Do it]}",
    '{tasks: {a: {description: d, for_each: [1, {x: 2}]}, b: {description: d, for_each: "{rows}"}}}',
    '{tasks: {a: {description: d, output_type: {kind: bill | other, n: "int | null", m: 1 | 2, l: [{x: str?}]}}}}',
    '{tasks: {a: {description: d, output_type: {type: object, $defs: {t: {type: [string, "null"]}}, x-own: 1}}}}',
    "{tasks: {a: d e, b: {description: d, when: {a: [x, default, {contains: y}]}}}}",
    "{tasks: {a: {description: d, output_type: {n: int}}, b: {description: d, when: {a: {field: n, equals: 3}}}}}",
    "{phases: {p: [Do it], q: {a: Do it, b: Do that}, r: {tasks: [Do it], after: p, review: Is it good enough}}}",
    "{phases: {p: {a: Do it, review: Look at it}, q: {after: p, tasks: {b: Do it}, review: {description: Good}}}}",
    "{manager_llm: local, manager: {max_iterations: 3}, tasks: [Do it]}",
    "{review: after_last_task, memory: true, budget: 20k tokens, rate_limit: 60/min, tasks: [Do it]}",
]

REFUSED = [
    "just a text",
    "[]",
    "[7]",
    "{llm: local}",
    "{tasks: [Do it], phases: {p: [Do it]}}",
    "{tasks: Do it}",
    "{tasks: [{expected_output: x}]}",
    "{tasks: {goal: Do it}}",
    "{tasks: {a: {description: 7}}}",
    "{tasks: {a: {description: d, nme: x}}}",
    '{tasks: {a: {description: d, context: "a, b"}}}',
    "{tasks: {a: {description: d, context: [[b]]}}}",
    '{tasks: {a: {description: d, max_retries: "2"}}}',
    "{tasks: {a: {description: d, review: false}}}",
    "{tasks: {a: {description: d, reuse: sometimes}}}",
    "{tasks: {a: {description: d, human_input: [1]}}}",
    "{tasks: {a: {description: d, output_type: str}}}",
    "{tasks: {a: {description: d, output_type: {x: strng}}}}",
    "{tasks: {a: {description: d, output_type: {x: str | bill}}}}",
    "{tasks: {a: {description: d, output_type: {x: [str, int]}}}}",
    '{tasks: {a: {description: d, output_type: {x: ["str?"]}}}}',
    "{tasks: {a: {description: d, output_type: {}}}}",
    "{tasks: {a: {description: d, output_type: {type: object, requird: [x]}}}}",
    "{tasks: {a: {description: d, output_type: {type: object, properties: {x: {type: text}}}}}}",
    "{tasks: {a: d e, b: {description: d, when: {a: {contains: x, equals: y}}}}}",
    "{tasks: {a: d e, b: {description: d, when: {a: {equals: 3}}}}}",
    "{tasks: {a: d e, b: {description: d, when: {a: x, b: y}}}}",
    "{agents: {A: Find facts}, tasks: [Do it]}",
    "{agents: {A: {role: x}}, tasks: [Do it]}",
    "{agents: [{goal: g}], tasks: [Do it]}",
    "{tasks: [{description: d, fallback: {goal: g}}]}",
    "{llm: {temperature: 1}, tasks: [Do it]}",
    "{llm: {model: local, temperature: hot}, tasks: [Do it]}",
    "{llm: {model: local, schema_mode: natve}, tasks: [Do it]}",
    "{workflow: paralel, tasks: [Do it]}",
    "{phases: {p: {tasks: [Do it], workflow: hierarchical}}}",
    "{phases: {p: {tasks: [Do it], aftr: q}}}",
    "{cost: {input_rate: 1}, tasks: [Do it]}",
    "{constraints: {}, hierarchical_constraints: {}, tasks: [Do it]}",
    "{verbose: yes, tasks: [Do it]}",
    "{manager: {lm: local}, tasks: [Do it]}",
]


def data_of(text):
    """What an editor makes of a cell: YAML 1.2's plain data."""

    def of(node):
        if isinstance(node, ListNode):
            return [of(each) for each in node.items]
        if isinstance(node, MappingNode):
            return {key.text: of(value) for key, value in node.pairs}
        assert isinstance(node, ScalarNode)
        return to_plain_value(node)

    return of(read_tree(MistakeReport(SourceText(text))))


def told(text):
    return [f"{each.instance_path}: {each.message}" for each in VALIDATOR.iter_errors(data_of(text))]


def test_file_is_made_from_the_vocabulary():
    assert FILE.read_text(encoding="utf-8") == write_editor_schema(), "run `make cell-schema`"


def test_schema_is_one_of_its_dialect_and_every_reference_leads_somewhere():
    jsonschema_rs.meta.validate(SCHEMA)
    text = json.dumps(SCHEMA)
    for reference in {each.split('"')[0] for each in text.split('"$ref": "#/')[1:]}:
        found = SCHEMA
        for part in reference.split("/"):
            found = found[part]
        assert found


@pytest.mark.parametrize("text", [*EXAMPLES, *CELLS.values()], ids=range(len(EXAMPLES) + len(CELLS)))
def test_cells_fit(text):
    assert told(text) == []


@pytest.mark.parametrize("text", READ)
def test_every_form_that_is_read_fits(text):
    read_cell(text, None, needs_inputs=False)
    assert told(text) == []


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_by_its_form_does_not_fit(text):
    with pytest.raises(CellError):
        read_cell(text, None, needs_inputs=False)
    assert told(text)


def test_misspelt_keys_do_not_fit():
    accepted = []
    for name, number, column, key in keys_of_language():
        line = lines_of(CELLS[name])[number]
        text = with_line(CELLS[name], number, line[:column] + key[0] + key[2:] + line[column + len(key) :])
        accepted += [] if told(text) else [(name, number, key)]
    assert accepted == []


def test_every_key_has_its_meaning_and_its_words():
    for name, schema in {"task": vocabulary.TASK, "agent": vocabulary.AGENT, "cell": vocabulary.CELL}.items():
        made = SCHEMA["$defs"][name]["properties"]
        assert set(made) == schema.known
        for key in schema.keys.values():
            assert made[key.name]["description"].startswith(key.meaning)
    assert SCHEMA["$defs"]["task"]["properties"]["reuse"]["default"] == "auto"
    assert SCHEMA["$defs"]["phase"]["properties"]["workflow"]["anyOf"][0] == {"enum": ["sequential", "parallel"]}


def test_closed_sets_of_words_are_all_listed():
    """Those that the vocabulary does not list are open: any text may stand there."""
    open_words = [
        key.name
        for schema in vocabulary.SCHEMAS
        for key in schema.keys.values()
        if key.kind is ValueKind.CHOICE and not key.word.choices
    ]
    assert Counter(open_words) == {"reasoning_effort": 1}


def test_words_of_other_tools_with_values_of_their_own_are_those_of_the_reader():
    assert FAMILIAR_FORMS.keys() == SectionReader(MistakeReport(SourceText(""))).familiar_readers.keys()
