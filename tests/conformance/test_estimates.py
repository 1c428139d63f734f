"""V14: an estimate says what is likely, by what earlier runs have taken, and what is the most."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import Agent, Budget, Ensemble, Phase, Task, ValidationError
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

RATES = {"input_rate": 0.001, "output_rate": 0.002}


def ask(llm: Any, **fields: Any) -> Ensemble:
    task = Task.of("Say {word}", name="say")
    return Ensemble(tasks=[task], llm=llm, **{"cost": RATES, "name": "asking", **fields})


def search(query: str) -> str:
    """Search."""
    return query


def test_v14_without_earlier_runs_a_reply_is_assumed_and_that_is_said(store_path: Path) -> None:
    found = ask("openai:m@http://127.0.0.1:9/v1").estimate(word="tea")
    assert found.assumed_reply == found.output_tokens.likely == 250
    assert found.llm_calls.likely == 1
    assert found.cost is not None
    assert found.cost.low < found.cost.likely < found.cost.high
    assert found.cost.likely == (found.input_tokens.likely + 2 * 250) * Decimal("0.001")
    assert str(found).endswith(
        "if every reply were as long as the model allows); a reply is assumed to have 250 tokens; "
        "asks 127.0.0.1:9 with no key"
    )
    assert json.loads(json.dumps(found.to_dict()))["total"]["likely_cost"] == str(found.cost.likely)


def test_v14_replies_are_likely_as_long_as_those_of_the_last_runs(
    server: OpenAIServer, llm: str, store_path: Path
) -> None:
    server.script("x" * 400, "x" * 800, "y" * 4000)
    ask(llm).run(word="tea")
    ask(llm).run(word="rye")
    Ensemble(tasks=[Task.of("Say it", name="say")], llm=llm, name="another").run()
    wait_for_store()
    found = ask(llm).estimate(word="tea")
    assert (found.output_tokens.likely, found.assumed_reply) == (150, None)
    assert "assumed" not in str(found)
    assert ask(llm, name=None).estimate(word="tea").assumed_reply == 250


def test_v14_rows_of_a_map_tell_as_well_and_so_do_tasks_of_phases(
    server: OpenAIServer, llm: str, store_path: Path
) -> None:
    server.script(*["x" * 400] * 5)
    ask(llm).map([{"word": "tea"}, {"word": "rye"}], repeat=2)
    phased = Ensemble(
        phases=[Phase(name="first", tasks=[Task.of("Say", name="say")])], llm=llm, name="phased", cost=RATES
    )
    phased.run()
    wait_for_store()
    assert ask(llm).estimate(word="tea").output_tokens.likely == 100
    assert phased.estimate().output_tokens.likely == 100


def test_v14_what_is_read_by_another_task_is_as_long_as_it_was(
    server: OpenAIServer, llm: str, store_path: Path
) -> None:
    def make() -> Ensemble:
        first = Task.of("Say", name="say")
        return Ensemble(tasks=[first, Task.of("End", name="end", context=[first])], llm=llm, name="two", cost=RATES)

    before = make().estimate().tasks[1].input_tokens.likely
    server.script("x" * 4000, "y")
    make().run()
    wait_for_store()
    assert make().estimate().tasks[1].input_tokens.likely - before == 1000 - 250


def test_v14_tools_likely_take_two_replies_and_a_fallback_none() -> None:
    spare = Agent(role="Spare", goal="Help")
    cook = Agent(role="Cook", goal="Cook", tools=[search])
    tasks = [Task.of("Look", name="look", agent=cook), Task.of("Say", name="say", fallback=spare)]
    found = Ensemble(tasks=tasks, llm="openai:m@http://127.0.0.1:9/v1", cost=RATES).estimate()
    assert [each.llm_calls.likely for each in found.tasks] == [2, 1]
    assert found.driver is found.tasks[0]
    assert f"; most of that for 'look', up to {found.tasks[0].llm_calls.high} calls)" in str(found)


def test_v14_a_budget_caps_both() -> None:
    found = ask("openai:m@http://127.0.0.1:9/v1", budget=Budget(max_cost=0.25)).estimate(word="tea")
    assert found.capped_cost is not None
    assert (found.capped_cost.likely, found.capped_cost.high) == (Decimal("0.25"), Decimal("0.25"))
    roomy = ask("openai:m@http://127.0.0.1:9/v1", budget=Budget(max_cost=2)).estimate(word="tea")
    assert "(at most $2.00, which is the budget" in str(roomy)


CELL = "tasks:\n  say: Say {{word}}\nllm: {llm}\ncost: {{input_rate: 0.0001, output_rate: 0.0001}}\n"


@pytest.fixture
def shell() -> Any:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ensemble_notebook")
    made.user_ns["rows"] = [{"word": "tea"}] * 60
    return made


def test_v14_a_cell_asks_where_three_times_the_likely_cost_is_more(
    shell: Any, server: OpenAIServer, llm: str, store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = CELL.format(llm=llm)
    with pytest.raises(ValidationError) as caught:
        shell.run_cell_magic("ensemble", "--map rows -o said", body)
    told = str(caught.value)
    assert "60 runs, one for each row of rows, cost about $" in told
    assert "(at most $" in told
    assert "3 times the likely cost is more than confirm_cost ($1.00)" in told
    assert server.requests == []
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = None")
    shell.run_cell_magic("ensemble", "-i word=tea -o said", body)
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = 3.0")
    wait_for_store()
    shell.run_cell_magic("ensemble", "--map rows -o said", body)  # replies are short, as is known now
    assert len(shell.user_ns["said"]) == 60
    capsys.readouterr()
    shell.run_cell_magic("ensemble", "--map rows -o said --budget '$1' --dry-run", body)
    told = capsys.readouterr().out
    assert "Estimate: model calls: 60; tokens: " in told
    assert "cost: about $" in told
    assert "which is the budget; most of that for 'say', up to 60 calls)" in told


def test_v14_prompts_of_many_rows_are_as_long_as_they_are_on_average(shell: Any, llm: str, store_path: Path) -> None:
    words = ["x" * 4000, *["x"] * 99]
    shell.user_ns["rows"] = [{"word": each} for each in words]
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = 4.5")
    shell.run_cell_magic("ensemble", "--map rows --dry-run", CELL.format(llm=llm))
    with pytest.raises(ValidationError, match="100 runs") as caught:
        shell.run_cell_magic("ensemble", "--map rows", CELL.format(llm=llm))
    likely = float(str(caught.value).partition("about $")[2].partition(" ")[0])
    assert likely < 100 * 0.0001 * (250 + 200) + 0.2


@pytest.mark.parametrize("line", ["--map rows --repeat 2", "-i word=tea", "--map rows", "--repeat 3 -i word=tea"])
def test_v14_judges_are_counted_alike_by_a_dry_run_and_from_python(
    shell: Any, llm: str, store_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    body = CELL.format(llm=llm)
    judge = "- {name: judge, description: 'Judge {output} for {word}', output_type: {passed: bool, why: str}}"
    shell.run_cell_magic("ensemble", f"--define -o fair --llm {llm}", judge)
    shell.run_cell_magic("ensemble", "--define -o said", body)
    said, fair = shell.user_ns["said"], shell.user_ns["fair"]
    rows = shell.user_ns["rows"] if "rows" in line else None
    repeat = next((number for number in (2, 3) if f"--repeat {number}" in line), None)
    inputs = {} if rows else {"word": "tea"}
    capsys.readouterr()
    for scored, score in (("", None), ("--score fair", fair)):
        shell.run_cell_magic("ensemble", f"{line} --dry-run {scored}", body)
        made = said.estimate(inputs, rows=rows, repeat=repeat, score=score)
        assert f"Estimate: {made}.\n" in capsys.readouterr().out
    assert [each.name for each in made.tasks] == ["say", "fair/judge"]
    runs = (len(rows) if rows else 1) * (repeat or 1)
    assert made.tasks[1].llm_calls.low == runs


def test_e36_v14_a_dry_run_says_what_the_budget_will_refuse(
    shell: Any, server: OpenAIServer, llm: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    judge = "- {name: judge, description: 'Judge {output}', output_type: {passed: bool, why: str}}"
    shell.run_cell_magic("ensemble", f"--define -o fair --llm {llm}", judge)
    shell.run_cell_magic("ensemble", f"--define -o inner --llm {llm}", "- Say it")
    nested = f"{CELL.format(llm=llm)}budget: $1\n".replace("say: Say", "nest: {ensemble: inner}\n  say: Say")
    refusal = "It would be refused: The {} The price of test-model by 127.0.0.1 is unknown"
    for line, body, who in (
        ("-i word=tea", nested, "ensemble of task 'nest':"),
        ("--map rows", nested, "ensemble of task 'nest':"),
        ("--map rows --score fair --budget '$1'", CELL.format(llm=llm), "judge fair:"),
        (
            "--map rows --vary llm=openai:a@http://127.0.0.1:9/v1 --score fair --budget '$1'",
            CELL.format(llm=llm),
            "judge fair:",
        ),
    ):
        capsys.readouterr()
        shell.run_cell_magic("ensemble", f"{line} --dry-run", body)
        assert capsys.readouterr().out.count(refusal.format(who)) == 1
        with pytest.raises(ValidationError, match="The price of test-model"):
            shell.run_cell_magic("ensemble", f"{line} -o said", body)
    for line in ("", "--score fair --budget '$1'"):  # the budget of a single run is not that of whoever scores it later
        scripted = CELL.format(llm="scripted")
        shell.run_cell_magic("ensemble", f"-i word=tea {line} --dry-run", scripted if line else CELL.format(llm=llm))
        assert "refused" not in capsys.readouterr().out
    server.default = Answer('{"passed": true, "why": "tea"}')
    shell.run_cell_magic("ensemble", f"-i word=tea {line} -o said", scripted)
    assert [each.value for each in shell.user_ns["said"].score_records] == [True]


def test_v14_what_is_known_of_a_cost_is_asked_about_where_a_judge_has_no_price(
    shell: Any, server: OpenAIServer, llm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = "- {name: judge, description: 'Judge {output}', output_type: {passed: bool, why: str}}"
    shell.run_cell_magic("ensemble", "--define -o fair --llm openai:strange@http://127.0.0.1:9/v1", judge)
    capsys.readouterr()
    with pytest.raises(
        ValidationError, match=r"cost unknown of strange; about \$.* of all else\. 3 times the likely cost"
    ):
        shell.run_cell_magic("ensemble", "--map rows --score fair -o said", CELL.format(llm=llm))
    told = capsys.readouterr().out
    assert "since no price is known of strange" in told
    assert "beside a model, or in its own ensemble, tells its price" in told
    assert server.requests == []


def test_e73_v14_two_prices_of_one_model_are_two_costs_in_a_cell(
    shell: Any, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("cheap", "0.00001"), ("dear", "0.0001")):
        cost = {"input_rate": rate, "output_rate": rate}
        shell.user_ns[name] = {"model": "m", "base_url": server.url, "cost": cost}
    costs = {}
    for line in ("--llm cheap", "--llm dear", "--vary llm=cheap --vary llm=dear"):
        capsys.readouterr()
        shell.run_cell_magic("ensemble", f"-i word=tea --dry-run {line}", "- Say {word}")
        costs[line] = float(capsys.readouterr().out.rpartition("cost: about $")[2].partition(" ")[0])
    assert costs["--llm dear"] == pytest.approx(10 * costs["--llm cheap"], rel=0.05)
    assert costs["--vary llm=cheap --vary llm=dear"] == pytest.approx(11 * costs["--llm cheap"], rel=0.05)
    shell.run_cell_magic("ensemble", "-i word=tea -o both --vary llm=cheap --vary llm=dear", "- Say {word}")
    cheap, dear = shell.user_ns["both"].frame.cost
    assert dear == pytest.approx(10 * cheap)
