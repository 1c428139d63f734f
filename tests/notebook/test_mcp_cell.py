"""Resources and prompts of an MCP server in cells (C108)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.support.notes_server import NotesServer


def test_c108_a_cell_names_a_resource_or_prompt_by_its_variable(shell: Any, tmp_path: Path) -> None:
    library = NotesServer(tmp_path)
    talk = library.toolbox.prompt("talk-of")
    shell.names.update(today=library.today, of_day=library.of_day, talk=talk)

    def answer(options: str, body: str) -> str:
        assert shell.run(f"%%ensemble -o r --llm scripted {options}\n{body}").success
        return str(shell.names["r"].raw)

    assert "Do buy milk" in answer("", "- Do {today}")
    assert "Do notes of mon" in answer("-i day=mon", "- Do {of_day}")
    shell.names["day"] = "tue"
    assert "Do notes of tue" in answer("", "- Do {of_day}")
    assert answer("--continue talk -i topic=tides", "- Go on").endswith("Then tell me of {tides}.")
    assert "Read" in answer(
        "", "agents: {A: {goal: Read, tools: [today, of_day]}}\ntasks:\n- {description: Read, agent: A}"
    )
    assert library.asked == ["today", "mon", "tue", "talk-of"]


def test_c108_reading_a_cell_starts_nothing_and_names_what_lacks(shell: Any, tmp_path: Path, capsys: Any) -> None:
    library = NotesServer(tmp_path)
    shell.names.update(today=library.today, of_day=library.of_day)
    assert shell.run("%%ensemble --dry-run --llm scripted\n- Do {today} {of_day}").success
    assert "{of_day} is notes://days/{day}, and 'day' has no value, which a run needs." in capsys.readouterr().out
    error = str(shell.error("%%ensemble --llm scripted\n- Do {of_day}"))
    assert "{of_day} is notes://days/{day}, and 'day' has no value." in error
    error = str(shell.error("%%ensemble --llm scripted --continue today\n- Go on"))
    assert "'today' holds no output of a run, but a value of type McpResource" in error
    assert library.asked == []


def test_c108_the_cell_says_what_is_read_until_the_run_begins_and_shows_no_timeline_without_one(
    shell: Any, tmp_path: Path
) -> None:
    library = NotesServer(tmp_path)
    shell.names.update(today=library.today, gone=library.toolbox.resource("notes://tody"))
    assert shell.run("%%ensemble --llm scripted\n- Do {today}").success
    told = [each["data"].get("text/plain", "") for each in shell.displayed]
    assert told[1].startswith("Reading notes://today of the MCP server ")
    assert told[1].endswith(" ... (interrupt the kernel to stop)")
    assert [each for each in shell.seen() if "Reading" in each.get("text/plain", "")] == []
    shell.displayed.clear()
    assert "Did you mean 'notes://today'?" in str(shell.error("%%ensemble --llm scripted\n- Do {gone}"))
    assert [each["text/plain"] for each in shell.seen()] == [""]
    shell.displayed.clear()
    assert shell.run("%%ensemble -b -o late --llm scripted\n- Do {gone}").success
    for thread in threading.enumerate():
        if thread.name == "ensemble-background":
            thread.join(20)
    assert shell.seen()[0]["text/plain"].startswith("The input 'gone' can't be read.")
