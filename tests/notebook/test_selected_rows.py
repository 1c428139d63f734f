"""What is done with rows that are selected in the views of a map, by messages (W157, W161, W162, W163)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import Ensemble, Fail, MapResult, ScriptedChatModel, Task, scorers
from ensemble_notebook.notebook.live.run_feed import find_feed_of
from tests.support.told_view import ToldView


class View(ToldView):
    """A view of a map: asks, and keeps what it is told."""

    def __init__(self, result: MapResult) -> None:
        super().__init__()
        assert result.output is not None
        result.timeline  # noqa: B018 - has its feed
        feed = find_feed_of(result.output)
        assert feed is not None
        self.feed = feed
        self._number = 0

    def post(self, act: str, rows: Sequence[int | str], **content: Any) -> int:
        ids = self.feed.messages.find_tasks()
        self._number += 1
        spans = [ids[each if isinstance(each, str) else f"row {each}"] for each in rows]
        self.feed.receive(self, {"kind": "tryout", "number": self._number, "act": act, "spans": spans, **content})
        return self._number

    def ask(self, act: str, rows: Sequence[int | str], word: str, **content: Any) -> Any:
        number = self.post(act, rows, **content)
        return self.wait_for(lambda told: told.get("number") == number and told.get(word))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    monkeypatch.setattr(shell, "user_ns", {})
    yield shell
    InteractiveShell.clear_instance()


def make_judge() -> Ensemble:
    said = ScriptedChatModel.match({"loud": '{"fair": false}'}, default='{"fair": true}')
    return Ensemble(tasks=[Task.of("Is {output} fair?", output_type={"fair": "bool"})], llm=said, name="polite")


@pytest.fixture
def result() -> MapResult:
    """Three rows: one says it loud, and one fails."""
    llm = ScriptedChatModel.match({"Answer b": "loud!", "Answer c": Fail(ValueError("no"))}, default="softly")
    team = Ensemble(tasks=[Task.of("Answer {q}", name="answer")], llm=llm)
    return team.map([{"q": "a"}, {"q": "b"}, {"q": "c"}], score=lambda output: len(output.raw))


@pytest.fixture
def view(shell: InteractiveShell, result: MapResult) -> View:
    shell.user_ns |= {
        "answers": result,
        "polite": make_judge(),
        "other": ScriptedChatModel(default="anew"),
        "team": result.ensemble,
    }
    return View(result)


def test_rows_are_offered_their_tasks_models_and_judges_w157(view: View) -> None:
    rows = view.ask("offer_rows", [0, 1], "rows")
    assert (rows["count"], rows["tasks"], rows["judges"], rows["lacking"]) == (2, ["answer"], ["polite"], "")
    assert [each["name"] for each in rows["models"]] == ["other"]
    assert view.ask("offer_rows", [2], "rows")["tasks"] == ["answer"]


def test_what_is_done_with_rows_is_told_to_all_views_also_to_later_ones_w157(view: View, result: MapResult) -> None:
    number = view.post("label_rows", [0], value=True)
    said = view.wait_for(lambda told: told.get("number") == number and told.get("said"))
    later = View(result)
    later._number = 10
    later.feed.receive(later, {"kind": "tryout", "act": "tell_row_acts"})
    told = later.wait_for(lambda each: each.get("row_act") and each)
    assert (told["number"], told["row_act"], told["said"]) == (number, "label_rows", said)
    other = later.post("label_rows", [1], value="odd")
    assert view.wait_for(lambda told: told.get("row_act") and told["number"] == other and told)["said"]


def test_rows_run_again_with_another_model_as_a_map_of_their_own_w161(view: View, shell: InteractiveShell) -> None:
    number = view.post("fork_rows", [1, 2], task="answer", change={"llm": "other"})
    said = view.wait_for(lambda told: told.get("number") == number and "said" in told and told)
    assert (said["said"], said["variable"]) == ("2 rows ran again: 2 completed.", "answers_fork")
    forked = shell.user_ns["answers_fork"]
    assert [each.raw for each in forked] == ["softly", "anew", "anew"]
    assert [each.reused for each in forked] == [True, False, False]
    fork = view.wait_for(lambda told: told.get("forks"))[-1]
    assert fork["changed"] == ["llm"]
    source = view.ask("source", [], "source", feed_id=fork["feed_id"])
    assert ("other" in source.get("source", "")) or source["refusal"]
    again = View(forked)  # those can be chosen from, too
    assert again.ask("offer_rows", [1], "rows")["count"] == 1


def test_rows_are_labelled_and_the_result_of_the_notebook_has_it_w162(view: View, shell: InteractiveShell) -> None:
    assert view.ask("label_rows", [0, 2], "said", value=False, note="dull") == "2 rows labelled 'bad'."
    assert shell.user_ns["answers"].frame["mark"].tolist()[::2] == [False, False]
    assert view.ask("label_rows", [0], "said", value=" witty ") == "1 row labelled 'witty'."
    assert shell.user_ns["answers"].frame["label"][0] == "witty"
    view.ask("label_rows", [0], "said", value="dry")  # in its place
    assert shell.user_ns["answers"].frame["label"][0] == "dry"
    assert view.ask("label_rows", [0], "error", value=" ").startswith("Say in a word")


def test_rows_are_judged_one_by_one_and_scores_are_told_to_views_w163(view: View, shell: InteractiveShell) -> None:
    view.feed.receive(view, {"kind": "hello", "have": -1})
    number = view.post("judge_rows", [0, 1], judge="polite")
    said = view.wait_for(lambda told: told.get("number") == number and "said" in told and told)
    assert (said["said"], said["variable"]) == ("polite: 1 of 2 passed.", "answers")
    assert any(told.get("progress") == "2 of 2 rows judged" for told in view.told)
    assert shell.user_ns["answers"].frame["polite"].tolist()[:2] == [True, False]
    assert view.ask("judge_rows", [2], "error", judge="polite")  # it failed, so there is nothing to judge
    assert "There is no such judge" in view.ask("judge_rows", [0], "error", judge="team")


def test_rows_of_two_variants_are_compared_w163(shell: InteractiveShell, view: View) -> None:
    task = Task.of("Is {first} nicer than {second}?", output_type={"nicer": "first | second | tie"})
    said = ScriptedChatModel.match({"<first>loud!": '{"nicer": "second"}'}, default='{"nicer": "first"}')
    referee = Ensemble(tasks=[task], llm=said, name="referee")
    shell.user_ns["nicer"] = scorers.judged_by(referee, pair=True)
    assert view.ask("offer_rows", [0], "rows")["judges"] == ["polite"]  # a map without variants has nothing to compare
    llm = ScriptedChatModel.match({"loudly": "loud!"}, default="softly")
    team = Ensemble(tasks=[Task.of("Answer {q} {tone}", name="answer")], llm=llm)
    tones = {"soft": {"tone": "softly"}, "loud": {"tone": "loudly"}}
    shell.user_ns["toned"] = toned = team.variants(tones).map([{"q": "a"}, {"q": "b"}])
    rows = View(toned)
    ids = ["soft/row 0", "soft/row 1", "loud/row 0", "loud/row 1"]
    assert rows.ask("offer_rows", ids, "rows")["judges"] == ["polite", "nicer"]
    assert rows.ask("judge_rows", ids, "said", judge="nicer") == "referee.soft|loud: soft won 2 of 2 pairs."
    assert shell.user_ns["toned"].frame["referee.soft|loud"].tolist() == [1, 1, 0, 0]
    assert "there is nothing to compare" in rows.ask("judge_rows", ids[:1], "error", judge="nicer")


def test_a_judge_can_be_stopped_and_what_was_judged_stays_w163(view: View, shell: InteractiveShell) -> None:
    started, release = threading.Event(), threading.Event()

    def wait(_messages: Any) -> str:
        started.set()
        release.wait(20)
        return '{"fair": true}'

    shell.user_ns["slow"] = make_judge().replace(name="slow", llm=ScriptedChatModel(default=wait))
    number = view.post("judge_rows", [0, 1], judge="slow")
    assert started.wait(20)
    view.ask("label_rows", [0], "said", value="dry")  # meanwhile
    view.post("stop", [0], of=number)
    release.set()
    said = view.wait_for(lambda told: told.get("number") == number and (told.get("said") or told.get("error")))
    assert "of 2 rows judged" in said
    assert shell.user_ns["answers"].frame["label"][0] == "dry"


def test_a_judge_that_fails_is_told_in_its_words_and_others_work_w163(view: View, shell: InteractiveShell) -> None:
    broken = ScriptedChatModel(default=Fail(ValueError("out of order")))
    shell.user_ns["broken"] = make_judge().replace(name="broken", llm=broken)
    assert "out of order" in view.ask("judge_rows", [0, 1], "error", judge="broken")
    assert view.ask("judge_rows", [0], "said", judge="polite") == "polite: 1 of 1 passed."


@pytest.mark.parametrize("content", [{"spans": 3}, {"spans": []}, {"spans": ["none"]}, {"task": "nothing"}])
def test_what_makes_no_sense_is_refused_and_the_next_works_w157(view: View, content: dict[str, Any]) -> None:
    assert view.ask("fork_rows", [0], "error", **content)
    assert view.ask("offer_rows", [0], "rows")


def test_a_run_that_is_no_map_has_no_rows_w157() -> None:
    output = Ensemble(tasks=[Task.of("Say it", name="row 0")], llm=ScriptedChatModel(default="so")).run()
    output.timeline  # noqa: B018
    view = View.__new__(View)
    view.__dict__.update(feed=find_feed_of(output), told=[], _news=threading.Condition(), _number=0)
    assert "no map" in view.ask("offer_rows", [0], "error")
