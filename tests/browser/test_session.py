"""A session of a coding agent as any run: found by its texts, and hostile in none of them (T111, W15, W28)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from ensemble_notebook import ExecutionTrace
from tests.browser.built_view import open_view
from tests.browser.lab import photograph
from tests.browser.scenes import show_saved
from tests.browser.test_drawer import ACTIVE, HOSTILE
from tests.support.session_files import ClaudeCodeSession, CodexSession, call, say

if TYPE_CHECKING:
    from playwright.sync_api import Page


def make_hostile_session() -> ClaudeCodeSession:
    session = ClaudeCodeSession()
    session.ask(0, HOSTILE)
    thought = {"type": "thinking", "thinking": HOSTILE}
    asked = call("t2", "Agent", subagent_type=HOSTILE, description=HOSTILE, prompt=HOSTILE)
    session.reply(4, "m1", thought, say(HOSTILE), call("t1", HOSTILE, **{HOSTILE: HOSTILE}), asked)
    session.result(8, "t1", HOSTILE, is_error=True)
    session.result(9, "t2", HOSTILE, agentId="a", agentType=HOSTILE)
    session.add(HOSTILE, 10, text=HOSTILE)
    refused = {"status": 500, "error": {"message": HOSTILE}}
    session.add("system", 11, subtype="api_error", error=refused, retryInMs=1)
    session.model = HOSTILE
    session.reply(14, "m2", say(f"lighthouse {HOSTILE}"), stop=HOSTILE)
    session.rows.append({"type": "custom-title", "customTitle": HOSTILE, "sessionId": session.session_id})
    return session


def make_hostile_codex_session() -> CodexSession:
    session = CodexSession(git={"branch": HOSTILE})
    session.ask(0, f"Go. {HOSTILE}")
    session.call(2, "c1", HOSTILE, command=[HOSTILE])
    session.result(4, "c1", HOSTILE)
    session.say(6, f"lighthouse {HOSTILE}")
    session.add("event_msg", 8, type="error", message=HOSTILE)
    session.add("event_msg", 9, type="thread_name_updated", thread_name=HOSTILE)
    return session


def test_w15_a_hostile_session_is_text_in_every_tab_and_found_t111(page: Page, address: str, tmp_path: Path) -> None:
    for name, session in (("claude", make_hostile_session()), ("codex", make_hostile_codex_session())):
        open_view(page, address, "at=0", width=1000, height=800)
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        view = show_saved(page, ExecutionTrace.load(session.write(tmp_path / f"{name}.jsonl")))
        view.get_by_label("Search the run").fill("lighthouse")
        expect(view.locator(".et-hit").first).to_contain_text("lighthouse")
        view.get_by_label("Search the run").fill("")
        photograph(f"session-hostile-{name}", view)
        view.locator(".et-row").first.click()
        drawer = view.locator(".et-drawer")
        page.keyboard.press("Enter")
        drawer.wait_for()
        further = drawer.get_by_role("button", name="Next span")
        for _ in range(12):
            for tab in drawer.get_by_role("tab").all():
                tab.click()
                assert view.evaluate(ACTIVE) == 0
            if not further.is_enabled():
                break
            further.click()
        photograph(f"session-hostile-drawer-{name}", view)
        assert page.evaluate("window.hacked") is None
        assert [each for each in asked if "127.0.0.1" not in each] == []
