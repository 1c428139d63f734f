"""Results and exchanges as the store writes them, many at once: nothing with a secret in it is left as it was (T7)."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.events import TaskCompleted
from ensemble_notebook.domain.outputs.secrets import mask, mask_values
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_rows import (
    MASKED,
    decode_piece,
    encode_exchanges,
    encode_results,
    make_first_rows,
    make_rows,
)
from ensemble_notebook.trace.store.run_writer import FinishedTask, Intake, RunWriter
from ensemble_notebook.trace.store.store_file import open_file
from ensemble_notebook.trace.store.store_reader import read_results
from tests.support.event_builder import EventBuilder
from tests.trace.test_written_events import SECRETS

WITH_SECRETS = st.lists(
    st.one_of(st.sampled_from(SECRETS), st.sampled_from(["?key", "&sig", "password", "api_key"]), st.text(max_size=20)),
    max_size=3,
).map("".join)


def make_result(raw: str = "Said.", **fields) -> FinishedTask:
    with (build := EventBuilder({"say": ()})).task("say"):
        pass
    output = next(each for each in build.finish() if isinstance(each, TaskCompleted)).output
    return FinishedTask("say", "k", fields.pop("parts", {}), replace(output, raw=raw), **fields)


def read_back(*tasks: FinishedTask) -> list[tuple[dict, dict]]:
    """Parts and document of each."""
    return [(json.loads(parts), *decode_piece(piece)) for parts, piece in encode_results(tasks)]


@given(st.dictionaries(WITH_SECRETS, WITH_SECRETS, max_size=3))
def test_parts_and_facts_of_a_result_are_masked(values):
    clean, (parts, document) = read_back(make_result(), make_result(parts=values, facts=values))
    assert clean[1]["output"]["raw"] == "Said."
    assert parts == to_plain(values)
    assert document["facts"] == mask_values(document["facts"])


@pytest.mark.parametrize("secret", SECRETS)
def test_output_with_a_secret_is_left_out_and_those_beside_it_are_kept_t7(secret):
    before, found, after = read_back(make_result("One."), make_result(f"It is {secret}"), make_result("Two."))
    assert found[1]["obstacle"] == MASKED
    assert "output" not in found[1]
    assert (before[1]["output"]["raw"], after[1]["output"]["raw"]) == ("One.", "Two.")


@given(st.lists(WITH_SECRETS, max_size=3))
def test_exchanges_are_masked_where_one_of_them_has_a_secret_t7(texts):
    makers = [lambda is_masking, text=text: {"text": mask(text) if is_masking else text} for text in texts]
    assert decode_piece(encode_exchanges(makers)) == mask_values([{"text": text} for text in texts])


def test_half_a_character_in_an_exchange_is_given_again():
    assert decode_piece(encode_exchanges([lambda _: {"text": "a\ud800b"}])) == [{"text": "a\ud800b"}]


def make_run(*entries) -> RunWriter:
    run = RunWriter(RunFacts(run_id="run", name=None, started_at=datetime.now(UTC)), Intake())
    for entry in entries:
        run.add_result(lambda entry=entry: entry)
    return run


def test_results_of_one_batch_come_back_in_order_each_with_its_own_text_and_parts(tmp_path):
    texts = ["", "long " * 1000, "é" * 30, "a\0b", 'a "quoted" \\ text', "\u2028", "last"]
    tasks = [make_result(text, parts={"of": text, "number": f"{number}"}) for number, text in enumerate(texts)]
    run = make_run(*tasks)
    with closing(open_file(tmp_path / "runs.db", is_new_allowed=True)) as file:
        first, rest = make_first_rows(run.facts, (), is_first=True), make_rows(run, run.take())
        for statement, values in (*first.statements, *rest.statements):
            file.executemany(statement, values)
        results = list(read_results(file, "run"))
    assert [each.output.raw for each in results] == texts
    assert [each.parts for each in results] == [each.parts for each in tasks]
    assert {(each.path, each.key) for each in results} == {("say", "k")}
