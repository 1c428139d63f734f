"""Recordings that somebody has edited: refused by name, or replayed; never a wait without end or a raw error (E71)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, EnsembleError, ReplayError, RunStatus, ScriptedChatModel, Task
from ensemble_notebook.models.recording.replayer import RecordedAnswers

SAVED = Path(__file__).parents[1] / "fixtures" / "0.1.0"
ODD = [
    *(".nan", ".inf", "-1", "1e400", "null", "true", "[]", "{}", "[[[]]]", "~", "2026-99-99", "0x", '"\\ud800"'),
    *('"\\0"', '"\\e[31m"', "9" * 400, "&a [*a]", "*a", "!!python/object:os.system x", "? [a] : b", "- - -"),
]


def soup() -> Ensemble:
    return Ensemble(tasks=[Task.of("Cook soup")], llm=ScriptedChatModel(replies=["Soup."]))


def record(file: Path) -> str:
    soup().run(record=file)
    return file.read_text()


@pytest.mark.parametrize("seconds", [".nan", ".inf", "-.inf", "-1", "1e300", "null", "[]"])
def test_a_time_that_no_clock_shows_is_refused_e71(tmp_path: Path, seconds: str) -> None:
    file = tmp_path / "soup.yaml"
    text = record(file)
    head, _, _ = text.rpartition("seconds: ")
    file.write_text(f"{head}seconds: {seconds}\n")
    with pytest.raises(ReplayError, match=r"soup\.yaml, line \d+: here the recording is not whole"):
        soup().run(replay=file)


@pytest.mark.parametrize("value", ["[" * 5_000 + "]" * 5_000, "&a [*a]", "&a {a: *a}", "2026-99-99", "[" * 20_000])
def test_values_that_yaml_can_not_hold_or_that_hold_themselves_are_refused_e71(tmp_path: Path, value: str) -> None:
    file = tmp_path / "soup.yaml"
    file.write_text(record(file).replace("seconds:", f"schema: {value}\nseconds:"))
    with pytest.raises(ReplayError, match=r"soup\.yaml, line \d+"):
        soup().run(replay=file)


def test_a_few_lines_that_stand_for_billions_are_refused_e71(tmp_path: Path) -> None:
    file = tmp_path / "soup.yaml"
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]
    file.write_text(record(file).replace("seconds:", "\n".join([*lines, "seconds:"])))
    with pytest.raises(ReplayError, match="too deep in each other"):
        soup().run(replay=file)


@pytest.mark.parametrize("name", ["kitchen", "storm", "report"])
def test_an_edited_recording_is_refused_or_read_e71(tmp_path: Path, name: str) -> None:
    lines, file = (SAVED / f"{name}.yaml").read_text().splitlines(), tmp_path / "edited.yaml"
    rng, refused = random.Random(name), 0
    for _ in range(15):
        edited = list(lines)
        for _ in range(rng.choice([1, 1, 2, 4])):
            at = rng.randrange(1, len(edited))
            key, colon, _ = edited[at].partition(":")
            match rng.randrange(4):
                case 0:
                    del edited[at]
                case 1:
                    edited.insert(at, rng.choice(edited))
                case _ if colon:
                    edited[at] = f"{key}: {rng.choice(ODD)}"
                case _:
                    edited[at] = rng.choice(ODD)
        file.write_text("\n".join(edited) + "\n", encoding="utf-8")
        try:
            answers = RecordedAnswers(file)
        except ReplayError:
            refused += 1
        else:
            assert all(0 <= each.seconds <= 86_400 for each in answers._exchanges.values())
            assert ", ".join(answers.models)
    assert refused


def test_what_is_replayed_from_an_edited_recording_ends_e71(tmp_path: Path) -> None:
    file, rng, statuses = tmp_path / "soup.yaml", random.Random(71), set()
    lines = record(file).splitlines()
    for _ in range(12):
        edited = list(lines)
        at = rng.randrange(2, len(edited))
        edited[at] = f"{edited[at].partition(':')[0]}: {rng.choice(ODD)}"
        file.write_text("\n".join(edited) + "\n", encoding="utf-8")
        try:
            statuses.add(asyncio.run(asyncio.wait_for(soup().arun(replay=file), 20)).status)
        except EnsembleError:
            statuses.add(RunStatus.FAILED)
    assert RunStatus.FAILED in statuses
