"""V1, V2: each row runs several times, repeat by repeat, as samples that know nothing of each other; row files."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI
from pandas.testing import assert_frame_equal

from ensemble_notebook import Budget, Ensemble, MapResult, Task, TaskInput, ValidationError, load_traces
from ensemble_notebook.errors import EnsembleError
from tests.conformance.scene import say, scripted
from tests.support.openai_server import OpenAIServer
from tests.support.store import wait_for_store

ROWS = [{"word": "tea"}, {"word": "rye"}]


@pytest.fixture
def counting(server: OpenAIServer) -> OpenAIServer:
    """Each request has an answer of its own, as from a model that draws."""
    server.script(*(f"answer {number}" for number in range(200)))
    return server


def ask(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Say {word}", name="say")], llm=llm, **fields)


def texts(result: MapResult) -> list[str]:
    return [each.raw or "" for each in result]


# --- V1 -----------------------------------------------------------------------------------------------------------


def test_v1_each_row_runs_so_often_and_repeat_is_the_last_level_of_the_index() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word} {how}", name="say", handler=lambda given: given.description)])
    frame = pd.DataFrame({"word": ["tea", "rye"]}, index=pd.Index(["t", "r"], name="drink"))
    result = ensemble.variants({"low": {"how": "low"}, "loud": {"how": "loud"}}).map(frame, repeat=3)
    assert result.repeats == 3
    assert list(result.frame.index.names) == ["variant", "drink", "repeat"]
    assert result.frame.index.tolist()[:4] == [("low", "t", 1), ("low", "t", 2), ("low", "t", 3), ("low", "r", 1)]
    assert result.frame.loc[("loud", "r", 2), "raw"] == "Say rye loud"
    assert [each.repeat for each in result] == [1, 2, 3] * 4
    assert result["low/t"] is result[0]
    assert result["low/t (repeat 2)"] is result[1]
    assert result.describe().startswith("2 rows x 3 repeats under 2 variants: 12 completed")
    assert_frame_equal(pickle.loads(pickle.dumps(result)).frame, result.frame)


@pytest.mark.parametrize(
    "run, names",
    [
        (lambda it: it.map([{}, {}], repeat=2), ["row", "repeat"]),
        (lambda it: it.map([{}, {}], repeat=1), ["row", "repeat"]),
        (lambda it: it.map(pd.DataFrame({"a": [1]}, index=["x"]), repeat=2), [None, "repeat"]),
        (lambda it: it.variants({"a": {}, "b": {}}).run(repeat=2), ["variant", "repeat"]),
        (lambda it: it.run(repeat=2), ["repeat"]),
        (lambda it: it.map([{}, {}]), [None]),
        (lambda it: it.variants({"a": {}, "b": {}}).run(), ["variant"]),
    ],
)
def test_v1_levels_of_the_index_by_what_is_repeated(run: Any, names: list[str | None]) -> None:
    result = run(Ensemble(tasks=[Task.of("Say", name="say", handler=say("x"))]))
    assert list(result.frame.index.names) == names
    assert result.frame.index.is_unique


def test_v1_one_run_with_repeat_is_a_map_of_one_row() -> None:
    count = itertools.count(1)
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say", handler=lambda _: f"{next(count)}")])
    result = ensemble.run(word="tea", repeat=3)
    assert isinstance(result, MapResult)
    assert (len(result), result._row_count, result.repeats) == (3, 1, 3)
    assert [each.name for each in result] == ["repeat 1", "repeat 2", "repeat 3"]
    assert sorted(texts(result)) == ["1", "2", "3"]
    assert result.frame.word.tolist() == ["tea"] * 3
    assert result.describe().startswith("3 repeats: 3 completed")
    with pytest.raises(ValidationError, match="continue_from goes on with one run"):
        ensemble.run(word="tea", repeat=2, continue_from=ensemble.run(word="tea"))
    variables = Ensemble(tasks=[Task.of("{score} {expected}", handler=lambda given: given.description)])
    assert variables.run(score="a", expected="b").raw == "a b"


def test_v1_repeat_1_of_all_rows_of_all_variants_comes_first() -> None:
    begun: list[str] = []

    def note(given: TaskInput) -> str:
        begun.append(given.description)
        return given.description

    ensemble = Ensemble(tasks=[Task.of("{how} {word}", name="say", handler=note)])
    ensemble.variants({"a": {"how": "a"}, "b": {"how": "b"}}).map(ROWS, repeat=2, concurrency=1)
    assert begun == ["a tea", "a rye", "b tea", "b rye"] * 2


def test_v1_a_map_that_is_stopped_has_whole_repeats() -> None:
    stopped = ask(scripted(*"abcdef"), budget=Budget(max_llm_calls=3)).map(ROWS, repeat=3, concurrency=1)
    done = [(each.index, each.repeat) for each in stopped if each.is_done]
    assert done == [(0, 1), (0, 2), (1, 1)]


@pytest.mark.parametrize("repeat", [0, -1, 1001, True, 2.5, "3"])
def test_v1_what_is_no_number_of_repeats_is_refused_before_anything_runs(repeat: Any) -> None:
    ensemble = ask(scripted())
    for run in (
        lambda: ensemble.map(ROWS, repeat=repeat),
        lambda: ensemble.run(word="tea", repeat=repeat),
        lambda: ensemble.variants({"a": {}}).map(ROWS, repeat=repeat),
        lambda: ensemble.variants({"a": {}}).run(word="tea", repeat=repeat),
    ):
        with pytest.raises(ValidationError, match=f"repeat must be a whole number from 1 to 1,000, got {repeat!r}"):
            run()


def test_v1_two_variants_are_compared_in_one_repeat() -> None:
    count = itertools.count(1)
    ensemble = Ensemble(
        tasks=[Task.of("{how}", name="say", handler=lambda given: f"{given.description} {next(count)}")]
    )
    result = ensemble.variants({"a": {"how": "a"}, "b": {"how": "b"}}).run(repeat=2, concurrency=1)
    assert repr(result.diff("a", "b", repeat=2)).startswith("A a (repeat 2) ")
    with pytest.raises(ValidationError, match="There is no repeat 3: there are 2 repeats, from 1"):
        result.diff("a", "b", repeat=3)


# --- V2 -----------------------------------------------------------------------------------------------------------


def test_v2_within_a_map_nothing_is_taken_from_another_run_whatever_is_reused(
    counting: OpenAIServer, llm: str, store_path: Path
) -> None:
    same = [{"word": "tea"}, {"word": "tea"}]
    result = ask(llm).variants({"a": {}, "b": {}}).map(same, repeat=3, reuse=True)
    assert len(counting.requests) == 12
    assert len(set(texts(result))) == 12


def test_v2_across_maps_sample_k_of_an_unchanged_row_serves_repeat_k(
    counting: OpenAIServer, llm: str, store_path: Path
) -> None:
    first = ask(llm).map(ROWS, repeat=3)
    wait_for_store()
    more = ask(llm).map(ROWS, repeat=5, reuse=True)
    assert len(counting.requests) == 6 + 4
    assert texts(more)[:3] + texts(more)[5:8] == texts(first)
    assert more.frame.reused.tolist() == [True, True, True, False, False] * 2
    assert len(set(texts(more))) == 10
    wait_for_store()
    again = ask(llm).map(ROWS, repeat=5, reuse=True)
    assert texts(again) == texts(more)
    assert len(counting.requests) == 10


def test_v2_rows_in_another_order_have_their_samples_and_equal_rows_never_the_same_one(
    counting: OpenAIServer, llm: str, store_path: Path
) -> None:
    first = ask(llm).map(ROWS, repeat=2)
    wait_for_store()
    other = ask(llm).map(ROWS[::-1], repeat=2, reuse=True)
    assert texts(other) == texts(first)[2:] + texts(first)[:2]
    assert len(counting.requests) == 4
    wait_for_store()
    five = ask(llm).map([{"word": "tea"}] * 5, repeat=2, reuse=True)
    assert len(set(texts(five))) == 10
    assert len(counting.requests) == 4 + 8
    assert sorted(each.repeat or 0 for each in five if each.reused) == [1, 2]


def test_v2_a_map_without_repeats_is_the_first_sample(counting: OpenAIServer, llm: str, store_path: Path) -> None:
    first = ask(llm).map(ROWS)
    wait_for_store()
    second = ask(llm).map(ROWS, repeat=2, reuse=True)
    assert [each.raw for each in second if each.repeat == 1] == texts(first)
    assert len(counting.requests) == 4
    wait_for_store()
    assert texts(ask(llm).map(ROWS, reuse=True)) == texts(first)
    single = ask(llm).run(word="tea", repeat=2, reuse=True)
    assert single.frame.reused.tolist() == [True, True]


def test_v2_a_cache_of_langchain_answers_no_repeat(counting: OpenAIServer) -> None:
    model = ChatOpenAI(model="test-model", base_url=counting.url, api_key="k", max_retries=0)  # type: ignore[arg-type]
    set_llm_cache(InMemoryCache())
    try:
        result = ask(model).map(ROWS, repeat=3)
    finally:
        set_llm_cache(None)
    assert len(set(texts(result))) == 6


def test_v2_resume_keeps_finished_repeats(counting: OpenAIServer, llm: str, store_path: Path) -> None:
    first = ask(llm, budget=Budget(max_llm_calls=3)).map(ROWS, repeat=2, concurrency=1)
    assert [each.is_done for each in first] == [True, True, True, False]
    by_result = ask(llm).map(ROWS, repeat=3, resume=first)
    assert texts(by_result)[:2] == texts(first)[:2]
    assert by_result.frame.reused.tolist() == [True, True, False, True, False, False]
    wait_for_store()
    count = len(counting.requests)
    by_id = ask(llm).map(ROWS, repeat=3, resume=first.run_id)
    assert texts(by_id)[:2] == texts(first)[:2]
    assert len(counting.requests) - count == 3
    assert len({*texts(by_id)}) == 6


def test_v2_what_a_resumed_row_keeps_is_reused_by_no_other(counting: OpenAIServer, llm: str, store_path: Path) -> None:
    first = ask(llm).map([{"word": "tea"}])
    wait_for_store()
    both = ask(llm).map([{"word": "tea"}, {"word": "tea"}], resume=first.run_id, reuse=True, concurrency=1)
    assert both[0].raw == first[0].raw
    assert len(set(texts(both))) == 2
    assert len(counting.requests) == 2


def test_v2_an_earlier_map_without_repeats_is_gone_on_with(counting: OpenAIServer, llm: str) -> None:
    first = ask(llm).map(ROWS)
    second = ask(llm).map(ROWS, repeat=2, resume=first)
    assert [each.raw for each in second if each.repeat == 1] == texts(first)
    assert len(counting.requests) == 4


def test_v2_repeats_that_never_differed_are_said_to(store_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say", handler=lambda given: given.description)])
    with caplog.at_level("INFO"):
        result = ensemble.map(ROWS, repeat=5)
    said = "5 repeats of 2 rows never differed."
    assert said in result._repr_mimebundle_()["text/plain"]
    assert said in result._repr_mimebundle_()["text/html"]
    assert said in [each.getMessage() for each in caplog.records]
    assert result.warnings == ()
    assert ensemble.run(word="tea", repeat=2)._describe_sameness() == "2 repeats never differed."
    wait_for_store()
    assert load_traces().load_map(result.run_id)._describe_sameness() == said  # type: ignore[arg-type]
    count = itertools.count()
    other = Ensemble(tasks=[Task.of("Say {word}", name="say", handler=lambda _: f"{next(count)}")])
    assert other.map(ROWS, repeat=2)._describe_sameness() is None
    assert ensemble.map(ROWS, repeat=1)._describe_sameness() is None
    assert ensemble.map(ROWS)._describe_sameness() is None


def test_v2_a_stored_map_keeps_its_repeats(store_path: Path) -> None:
    count = itertools.count()
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say", handler=lambda _: f"{next(count)}")])
    live = ensemble.variants({"a": {}, "b": {}}).map(ROWS, repeat=2)
    wait_for_store()
    loaded = load_traces()
    assert loaded.rows.repeat.tolist() == [1, 2] * 4
    again = loaded.load_map(live.run_id)  # type: ignore[arg-type]
    assert_frame_equal(again.frame, live.frame)
    assert again.describe() == live.describe()


# --- In a cell ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ensemble_notebook")
    made.user_ns.update(rows=ROWS, echo=lambda given: given.description)
    return made


ECHO = "- {name: say, description: 'Say {word}', handler: echo}\n"


def test_v1_a_cell_repeats_its_rows_its_variants_or_itself(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("ensemble", "--map rows --repeat 2 -o both", ECHO)
    assert shell.user_ns["both"].frame.index.tolist() == [(0, 1), (0, 2), (1, 1), (1, 2)]
    shell.run_cell_magic("ensemble", "-i word=tea --repeat 3 -o one", ECHO)
    assert texts(shell.user_ns["one"]) == ["Say tea"] * 3
    assert "3 repeats never differed." in capsys.readouterr().out
    shell.run_cell_magic("ensemble", "--vary word=tea --vary word=rye --repeat 2 -o varied", ECHO)
    assert list(shell.user_ns["varied"].frame.index.names) == ["variant", "repeat"]
    shell.run_cell_magic("ensemble", "--map rows --repeat 2 --dry-run", ECHO)
    assert "4 runs, 2 for each row of rows" in capsys.readouterr().out


@pytest.mark.parametrize("repeat", ["0", "2.5", "True", "1001", "-1"])
def test_v1_a_cell_refuses_what_is_no_number_of_repeats(shell: Any, repeat: str) -> None:
    with pytest.raises(EnsembleError, match="must be a whole number from 1 to 1,000"):
        shell.run_cell_magic("ensemble", f"--map rows --repeat={repeat}", ECHO)


# --- Rows from files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["some rows.csv", "rows.jsonl", "rows.PARQUET"])
def test_v13_rows_come_from_a_file(shell: Any, tmp_path: Path, name: str) -> None:
    table = pd.DataFrame({"word": ["tea", "rye"], "count": [1, 2]})
    write = {
        "csv": lambda path: table.to_csv(path, index=False),
        "sonl": lambda path: table.to_json(path, orient="records", lines=True),
    }
    write.get(name.rpartition(".")[2].replace("jsonl", "sonl"), table.to_parquet)(tmp_path / name)
    shell.run_cell_magic("ensemble", f"--map '{name}' -o found", ECHO)
    assert texts(shell.user_ns["found"]) == ["Say tea", "Say rye"]
    assert shell.user_ns["found"].frame["count"].tolist() == [1, 2]


def test_v13_what_a_csv_file_says_is_taken_as_it_is_written(shell: Any, tmp_path: Path) -> None:
    text = 'word,zip,sure,count,note\nNA,00123,TRUE,1,\n"null, or so",10115,false,2.5,none\n'
    (tmp_path / "rows.csv").write_text(text)
    shell.run_cell_magic("ensemble", "--map rows.csv -o found", ECHO)
    frame = shell.user_ns["found"].frame
    assert texts(shell.user_ns["found"]) == ["Say NA", "Say null, or so"]
    assert frame["zip"].tolist() == ["00123", "10115"]
    assert frame["sure"].tolist() == ["TRUE", "false"]
    assert frame["count"].tolist() == [1, 2.5]
    assert frame["note"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    "place, words",
    [
        ("ragged.csv", "rows have more values than the 2 columns; put a text with a comma in it between double quotes"),
        ("twice.csv", "the column 'word' stands twice"),
        ("folder.csv", "'folder.csv' is a folder"),
        ("rosw.csv", r"There is no file 'rosw.csv'. Did you mean 'rows.csv'\?"),
        ("broken.jsonl", "The rows in 'broken.jsonl' can't be read: "),
        ("empty.csv", "The rows in 'empty.csv' can't be read: No columns to parse from file"),
        ("rows.xlsx", "'rows.xlsx' is neither a name of a variable nor a file of rows"),
        ("rosw", "the notebook has no variable of this name. Did you mean 'rows'"),
    ],
)
def test_v13_what_is_no_file_of_rows_is_refused(shell: Any, tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "rows.csv").write_text("word\ntea\n")
    (tmp_path / "ragged.csv").write_text("id,word\n1,tea, please\n2,rye\n")
    (tmp_path / "twice.csv").write_text("word,word\ntea,rye\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "broken.jsonl").write_text('{"word": ')
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(EnsembleError, match=words):
        shell.run_cell_magic("ensemble", f"--map {place}", ECHO)
