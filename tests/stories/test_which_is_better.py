"""Which is better, and can that be trusted? Six stories on a server whose truth is known, judges included.

Each is told in as few lines as a person would write. Where inspect_ai tells the same, it does so against the same
server, in processes of its own, and the lines of both are counted.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from ensemble_notebook.cli.main import DONE, FAILED, main
from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer, OpenAIServer, Request
from tests.support.store import wait_for_store


def make_questions(count: int) -> list[dict[str, str]]:
    return [{"question": f"What is {each} plus {each}?", "expected": str(2 * each)} for each in range(count)]


QUESTIONS = make_questions(20)


def count_lines(*texts: str) -> int:
    """The lines that are not blank."""
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def add(seen: Counter[str]) -> Callable[[str], str]:
    """A model that adds: right in all rows where it is to think, and else wrong at every other asking of a question.

    Args:
        seen: how often each question was asked.
    """

    def answer(said: str) -> str:
        (number,) = re.findall(r"What is (\d+) plus", said)[-1:]
        is_thinking = "Think first" in said
        key = f"{number} {is_thinking}"
        seen[key] += 1
        is_right = is_thinking or (int(number) + seen[key]) % 2 == 0
        return str(2 * int(number) + (not is_right))

    return answer


# --- (a) 20 questions, two prompts, three repeats ---------------------------------------------------------------------

TWO_PROMPTS = """
%%ensemble -o sums --map quiz --vary "how@quick=Answer at once" --vary "how@slow=Think first" --repeat 3 --score equals
llm: openai:test-model
tasks:
  answer: "{question} {how}."
"""
TWO_PROMPTS_WITH_INSPECT = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match, stderr, accuracy
from inspect_ai.solver import generate, prompt_template
samples = [Sample(input=each["question"], target=each["expected"]) for each in questions]
tasks = [
    Task(name=how.split()[0], dataset=samples, solver=[prompt_template("{prompt} " + how + "."), generate()],
         scorer=match("exact"), epochs=3)
    for how in ("Answer at once", "Think first")
]
logs = eval(tasks, model="openai/test-model", model_args={"responses_api": False}, display="none", log_dir=folder)
for log in logs:
    print(log.eval.task, {name: round(each.value, 3) for name, each in log.results.scores[0].metrics.items()})
"""


def test_two_prompts_are_told_apart_with_an_interval(notebook: Notebook) -> None:
    answer = add(Counter())
    notebook.answer(lambda asked: answer(asked.task))
    notebook.names["quiz"] = QUESTIONS
    notebook.run(TWO_PROMPTS)
    assert repr(notebook.value("sums.compare()")) == (
        "slow passes 50 points more often than quick (95%: 42 to 58; 20 rows x 3 repeats, p < 0.001)."
    )
    assert len(notebook.server.requests) == 120
    assert count_lines(TWO_PROMPTS, "sums.compare()") == 5


# Its imports, anthropic's among them, take as long as a program. Each program has a fork, since a client keeps the
# address of its first server.
RUN_EACH = """
import json, os, sys, traceback
import anthropic, inspect_ai.dataset, inspect_ai.model, inspect_ai.scorer, inspect_ai.solver, inspect_ai.tool, openai
for line in sys.stdin:
    program = json.loads(line)
    if (pid := os.fork()) == 0:
        with open(program["output"], "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.environ.update(program["environment"])
        status = 1
        try:
            exec(program["code"], {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitpid(pid, 0)[1], flush=True)
"""
RunInspect = Callable[..., str]


@pytest.fixture(scope="module")
def inspect_ai() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported inspect_ai, and runs a program for each line that it is given."""
    command = [sys.executable, "-W", "ignore", "-c", RUN_EACH]
    environment = {"OPENAI_API_KEY": "key", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process


@pytest.fixture
def run_inspect(inspect_ai: subprocess.Popen[str], server: OpenAIServer, tmp_path: Path) -> RunInspect:
    """Runs a program with inspect_ai against the server; gives what it prints."""

    def run(code: str, **values: object) -> str:
        names = "\n".join(f"{name} = {value!r}" for name, value in {**values, "folder": str(tmp_path)}.items())
        output = tmp_path / "output.txt"
        program = {
            "code": f"{names}\n{textwrap.dedent(code)}",
            "output": str(output),
            "environment": {"OPENAI_BASE_URL": server.url, "HOME": str(tmp_path)},
        }
        assert inspect_ai.stdin is not None
        assert inspect_ai.stdout is not None
        print(json.dumps(program), file=inspect_ai.stdin, flush=True)
        status = inspect_ai.stdout.readline()
        printed = output.read_text()
        assert status == "0\n", printed[-3_000:]
        return printed

    return run


def test_inspect_ai_tells_two_prompts_apart_by_hand(server: OpenAIServer, run_inspect: RunInspect) -> None:
    answer = add(Counter())
    server.choose = lambda request: Answer(answer(request.prompt))
    printed = run_inspect(TWO_PROMPTS_WITH_INSPECT, questions=QUESTIONS)
    assert "Answer {'accuracy': 0.5" in printed
    assert "Think {'accuracy': 1.0" in printed
    assert count_lines(TWO_PROMPTS_WITH_INSPECT) == 13  # and no verdict: two means with their standard errors


# --- (b) 300 rows read into a type, and compared with what they should be ---------------------------------------------

EXTRACTION = """
%%ensemble -o bill --map letters --score "shop=equals('seller', 'vendor')" --score "euros=equals('sum', 'total')"
llm: openai:test-model
tasks:
  read: {description: "Read this bill: {letter}", output_type: {vendor: str, total: float}}
"""
EXTRACTION_WITH_INSPECT = """
import json
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer, stderr
from inspect_ai.solver import generate, prompt_template
def compare(field, gold):
    @scorer(metrics=[accuracy(), stderr()], name=field)
    def make():
        async def score(state, target):
            try:
                found = json.loads(state.output.completion)
            except ValueError:
                return Score(value=False, explanation="no JSON")
            return Score(value=found[field] == state.metadata[gold])
        return score
    return make()
samples = [Sample(input=each["letter"], metadata=each) for each in letters]
ask = prompt_template("Read this bill: {prompt}. Reply with JSON that has vendor and total.")
task = Task(dataset=samples, solver=[ask, generate()], scorer=[compare("vendor", "seller"), compare("total", "sum")])
(log,) = eval(task, model="openai/test-model", model_args={"responses_api": False}, display="none", log_dir=folder)
for score in log.results.scores:
    print(score.name, round(score.metrics["accuracy"].value, 3))
"""


def write_bills() -> list[dict[str, object]]:
    """Bills, each with what is to be read in it."""
    return [
        {
            "letter": f"Bill {number} of Shop {number % 7}, {number}.50 euros",
            "seller": f"Shop {number % 7}",
            "sum": number + 0.5,
        }
        for number in range(300)
    ]


def read_bill(said: str) -> str:
    """A model that reads: one bill in fifty not at all, and one in ten with a vendor of its own."""
    number, shop = re.findall(r"Bill (\d+) of Shop (\d)", said)[0]
    if int(number) % 50 == 49:
        return "I can't read this."
    return json.dumps({"vendor": f"Shop {shop}{' Ltd' * (int(number) % 10 == 3)}", "total": int(number) + 0.5})


def test_fields_of_300_rows_are_compared_and_those_that_failed_count(notebook: Notebook) -> None:
    notebook.answer(lambda asked: read_bill(asked.said))
    notebook.names["letters"] = write_bills()
    notebook.run(EXTRACTION)
    columns = "['score', 'rows', 'failed', 'mean']"
    assert notebook.value(f"bill.summary()[{columns}].values.tolist()") == [
        ["shop", 300, 6, 264 / 300],
        ["euros", 300, 6, 294 / 300],
    ]
    assert notebook.value("bill.frame.shop.mean()") > 264 / 300  # the plain mean leaves them out
    assert repr(notebook.value("bill.passes('euros', at_least=0.95)")) == (
        "shown: euros 98% (95%: 96 to 99; 300 rows); 6 rows failed and count as not passed."
    )
    assert count_lines(EXTRACTION, "bill.summary()") == 5


def test_inspect_ai_compares_fields_by_scorers_of_ones_own(server: OpenAIServer, run_inspect: RunInspect) -> None:
    server.choose = lambda request: Answer(read_bill(request.prompt))
    printed = run_inspect(EXTRACTION_WITH_INSPECT, letters=write_bills())
    assert printed.splitlines() == ["vendor 0.88", "total 0.98"]
    assert count_lines(EXTRACTION_WITH_INSPECT) == 22


# --- (c) a judge, checked against a person ----------------------------------------------------------------------------

JUDGE = """
%%ensemble --define -o polite
llm: openai:test-model
tasks:
  judge: {description: "Is this answer polite? {output}", output_type: {polite: bool, reason: str}}
"""
REPLIES = """
%%ensemble -o replies --map letters --vary tone=curt --vary tone=warm --score polite
llm: openai:test-model
tasks:
  reply: "Answer letter {number}, {tone}."
"""
LABELS = """
for row in replies:
    replies = replies.annotate(row, row.raw in what_a_person_likes)
"""


def reply_or_judge(asked: Asked) -> str:
    """A model that writes letters, most of the warm ones polite, and judges them, but for one in ten."""
    if "Is this answer polite?" in asked.task:
        number = int(re.findall(r"letter (\d+)", asked.task)[0])
        is_polite = ("Dear" in asked.task) is not (number % 10 == 4)
        return json.dumps({"polite": is_polite, "reason": "It says so."})
    number = int(re.findall(r"letter (\d+)", asked.task)[0])
    is_polite = number % 10 < (9 if "warm" in asked.task else 3)
    return f"{'Dear friend' if is_polite else 'You'}, this is about letter {number}."


def test_judge_is_checked_against_forty_labels_of_a_person(notebook: Notebook) -> None:
    notebook.answer(reply_or_judge)
    notebook.names["letters"] = [{"number": number} for number in range(20)]
    notebook.names["what_a_person_likes"] = {f"Dear friend, this is about letter {number}." for number in range(20)}
    notebook.run(JUDGE, REPLIES)
    assert repr(notebook.value("replies.compare()")).startswith(
        "warm passes 40 points more often than curt, by a judge that nobody has checked (95%: 8 to 72; 20 rows, p = "
    )
    asked = len(notebook.server.requests)
    notebook.run(LABELS)
    assert len(notebook.server.requests) == asked == 80
    assert "; the judge agreed with a person on 36 of 40 runs (kappa 0.7" in repr(
        notebook.value("replies.compare(score='polite')")
    )
    assert repr(notebook.value("replies.agreement('polite', 'label')")).startswith(
        "polite and label agree on 36 of 40 runs (kappa 0.7"
    )
    assert count_lines(JUDGE, REPLIES, LABELS, "replies.compare(score='polite')") == 11


JUDGE_WITH_INSPECT = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import model_graded_qa
from inspect_ai.solver import generate
judge = model_graded_qa("Is this answer polite? {answer} {instructions}", "Reply GRADE: C or GRADE: I.")
samples = lambda tone: [Sample(input=f"Answer letter {each['number']}, {tone}.", target="polite") for each in letters]
tasks = [Task(name=tone, dataset=samples(tone), solver=generate(), scorer=judge) for tone in ("curt", "warm")]
logs = eval(tasks, model="openai/test-model", model_args={"responses_api": False}, display="none", log_dir=folder)
agreed = 0
for log in logs:
    print(log.eval.task, log.results.scores[0].metrics["accuracy"].value)
    for sample in log.samples:
        agreed += (sample.scores["model_graded_qa"].value == "C") == (sample.output.completion in likes)
print("agreed", agreed)
"""


def test_inspect_ai_asks_the_same_judge_and_leaves_the_check_to_us(
    server: OpenAIServer, run_inspect: RunInspect
) -> None:
    def answer(request: Request) -> Answer:
        said = reply_or_judge(Asked("", request.prompt, request.prompt, request.prompt))
        return Answer(f"GRADE: {'C' if 'true' in said else 'I'}" if said.startswith("{") else said)

    server.choose = answer
    likes = [f"Dear friend, this is about letter {number}." for number in range(20)]
    letters = [{"number": number} for number in range(20)]
    printed = run_inspect(JUDGE_WITH_INSPECT, letters=letters, likes=likes)
    assert printed.splitlines() == ["curt 0.4", "warm 0.8", "agreed 36"]
    assert count_lines(JUDGE_WITH_INSPECT) == 14  # two means and a count: no kappa, no verdict


# --- (d) a change to a prompt, held to what was there before, in pytest and on the command line -----------------------

CELL = """
llm: openai:test-model
tasks:
  answer: "{question} Think first."
"""
IN_PYTEST = """
before = load_traces().load_map(stored)
now = Ensemble.from_yaml(cell).map(questions, score=scorers.equals())
assert now.compare(before, now).not_worse(by=0.05)
"""
ON_THE_COMMAND_LINE = "map cell.yaml rows.csv --score equals --fail-under equals=0.9 --against {} --not-worse-by 0.05"


@pytest.mark.parametrize(
    "rows, wrong, answer, mark",
    [
        (40, 0, "not shown with 40 rows (about 54 would)", "shown"),
        (120, 0, "shown", "shown"),
        (120, 40, "shown to be worse", "shown to be worse"),
    ],
)
def test_change_to_a_prompt_is_held_to_what_was_there_before(
    notebook: Notebook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: int,
    wrong: int,
    answer: str,
    mark: str,
) -> None:
    questions = [
        {"question": f"What is {number} plus {number}?", "expected": str(2 * number)} for number in range(rows)
    ]
    notebook.answer(lambda asked: add(Counter())(asked.task))
    notebook.names.update(questions=questions, cell=CELL)
    notebook.run("from ensemble_notebook import Ensemble, load_traces, scorers")
    notebook.run("stored = Ensemble.from_yaml(cell).map(questions, score=scorers.equals()).run_id")
    wait_for_store()

    def answer_now(asked: Asked) -> str:
        right = add(Counter())(asked.task)
        return "no idea" if int(right) < 2 * wrong else right

    notebook.answer(answer_now)
    done = notebook.shell.run(IN_PYTEST)
    assert done.success == (answer == "shown")
    assert notebook.value("now.compare(before, now).not_worse(by=0.05).status") == answer

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("cell.yaml").write_text(CELL)
    pd.DataFrame(questions).to_csv("rows.csv", index=False)
    command = ON_THE_COMMAND_LINE.format(notebook.value("stored"))
    status = main([*command.split(), "--summary", "summary.md"])
    shown = capsys.readouterr().out
    assert status == (DONE if answer == mark == "shown" else FAILED)
    assert f" is_equal at least 0.9: {mark}" in shown
    assert f" is_equal not worse by 0.05: {answer}" in shown
    assert f"**is\\_equal not worse by 0.05**: {answer}: " in Path("summary.md").read_text()


# --- (e) scores for a stored map, without a payment -------------------------------------------------------------------

LATER = """
from ensemble_notebook import load_traces, scorers
scored = load_traces().load_map(last_week).score(scorers.contains("Dear"), name="greets")
"""


def test_last_weeks_map_gets_scores_without_a_payment(notebook: Notebook) -> None:
    notebook.answer(reply_or_judge)
    notebook.names["letters"] = [{"number": number} for number in range(20)]
    notebook.run(REPLIES.replace(" --score polite", ""))
    notebook.names["last_week"] = notebook.value("replies.run_id")
    wait_for_store()
    asked = len(notebook.server.requests)
    notebook.run("del replies", LATER)
    assert repr(notebook.value("scored.compare()")).startswith("warm passes 60 points more often than curt (95%: ")
    wait_for_store()
    assert notebook.value("load_traces().load_map(last_week).compare().p") == notebook.value("scored.compare().p")
    assert len(notebook.server.requests) == asked == 40
    assert count_lines(LATER, "scored.compare()") == 3


# --- (f) the way to an answer -----------------------------------------------------------------------------------------

TOOL = """
def search(words: str) -> str:
    \"\"\"Search the library.\"\"\"
    return f"{words}: 42"
"""
TRAJECTORY = """
%%ensemble -o found --map topics --score "called_in_order(['search'])" --score calls_at_most(3)
llm: openai:test-model
agents:
  Librarian: {goal: Find books, tools: search}
tasks:
  find: {description: "Look up {topic}", agent: Librarian}
"""


def look_up(asked: Asked) -> Answer | str:
    """A model that searches first, but for every fifth topic, and does not stop at once at every seventh."""
    number = int(re.findall(r"topic (\d+)", asked.task)[0])
    searches = asked.said.count(": 42")
    wanted = 0 if number % 5 == 0 else 3 if number % 7 == 0 else 1
    if searches < wanted:
        return Answer(None, calls=[("search", {"words": f"topic {number} again {searches}"})])
    return "It is 42."


def test_runs_that_searched_before_they_answered_pass(notebook: Notebook) -> None:
    notebook.answer(look_up)
    notebook.names["topics"] = [{"topic": f"topic {number}"} for number in range(1, 41)]
    notebook.run(TOOL, TRAJECTORY)
    summary = notebook.value("found.summary().set_index('score')['mean'].to_dict()")
    assert summary == {"called_in_order": 32 / 40, "calls_at_most": 36 / 40}
    assert count_lines(TRAJECTORY, "found.summary()") == 7


TRAJECTORY_WITH_INSPECT = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
@tool
def search():
    async def execute(words: str):
        \'\'\'Search the library.

        Args:
            words: what for
        \'\'\'
        return f"{words}: 42"
    return execute
@scorer(metrics=[accuracy()])
def searched_first():
    async def score(state, target):
        calls = [call for each in state.messages if each.role == "assistant" for call in each.tool_calls or []]
        return Score(value=bool(calls) and calls[0].function == "search")
    return score
@scorer(metrics=[accuracy()])
def at_most_three_calls():
    async def score(state, target):
        return Score(value=sum(each.role == "assistant" for each in state.messages) <= 3)
    return score
samples = [Sample(input=f"Look up {each['topic']}") for each in topics]
task = Task(dataset=samples, solver=[use_tools(search()), generate()], scorer=[searched_first(), at_most_three_calls()])
(log,) = eval(task, model="openai/test-model", model_args={"responses_api": False}, display="none", log_dir=folder)
for score in log.results.scores:
    print(score.name, score.metrics["accuracy"].value)
"""


def test_inspect_ai_looks_at_the_way_by_scorers_of_ones_own(server: OpenAIServer, run_inspect: RunInspect) -> None:
    def answer(request: Request) -> Answer:
        said = "\n".join(str(each.get("content") or "") for each in request.messages)
        found = look_up(Asked("", request.messages[0]["content"], request.prompt, said))
        return Answer(found) if isinstance(found, str) else found

    server.choose = answer
    topics = [{"topic": f"topic {number}"} for number in range(1, 41)]
    printed = run_inspect(TRAJECTORY_WITH_INSPECT, topics=topics)
    assert printed.splitlines() == ["searched_first 0.8", "at_most_three_calls 0.9"]
    assert count_lines(TRAJECTORY_WITH_INSPECT) == 30
