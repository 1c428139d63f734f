"""The channel of a page, in a real kernel: a page has a subshell of its own while a cell keeps the main thread busy.

Holds W13 in a kernel.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kernel import LIMIT_S, Kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
TRACE = "application/vnd.ensemble.trace+json"
TARGET = "ensemble_notebook.live"

SETUP = """
%load_ext ensemble_notebook
import threading
gate = threading.Event()
def quick(task): return f"{task.name} is done"
def wait(task): return str(gate.wait(30))
"""
CELL = """%%ensemble -o night
tasks:
  begin: {description: Begin, handler: quick}
  end: {description: End, handler: wait, context: [begin]}
"""


class PageOfTests:
    """What the extension does in a page."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.comm_id = uuid.uuid4().hex
        session, control = kernel.client.session, kernel.client.control_channel
        control.send(session.msg("create_subshell_request", {}))
        self.subshell = control.get_msg(timeout=LIMIT_S)["content"]["subshell_id"]

    def send(self, kind: str, **content: Any) -> str:
        """Send a message over the subshell; gives its id."""
        message = self.kernel.client.session.msg(kind, {"comm_id": self.comm_id, **content})
        message["header"]["subshell_id"] = self.subshell
        self.kernel.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def open(self) -> PageOfTests:
        self.send("comm_open", target_name=TARGET, data={})
        self.until(lambda: bool(self.told("feeds")))
        return self

    def say(self, **data: Any) -> str:
        return self.send("comm_msg", data=data)

    def say_to(self, feed_id: str, **content: Any) -> str:
        return self.say(kind="feed", feed_id=feed_id, content=content)

    @property
    def received(self) -> list[dict[str, Any]]:
        return [
            message["content"]["data"]
            for message in self.kernel.messages
            if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self.comm_id
        ]

    def told(self, kind: str) -> list[dict[str, Any]]:
        """What the kernel has said of this kind, of feeds or of itself."""
        flat = [each["content"] if each["kind"] == "feed" else each for each in self.received]
        return [each for each in flat if each["kind"] == kind]

    def has_ended(self, feed_id: str) -> bool:
        """Whether the kernel has told of the end of this run."""
        ended = [each for each in self.received if each["kind"] == "feed" and each["content"]["kind"] == "ended"]
        return feed_id in [each["feed_id"] for each in ended]

    @property
    def live_feeds(self) -> list[str]:
        return [each["feed_id"] for each in self.told("feeds")[-1]["feeds"] if each["is_live"]]

    def until(self, is_enough: Any) -> None:
        self.kernel.until(is_enough)

    def leave(self) -> None:
        self.send("comm_close", data={})
        session, control = self.kernel.client.session, self.kernel.client.control_channel
        control.send(session.msg("delete_subshell_request", {"subshell_id": self.subshell}))
        control.get_msg(timeout=LIMIT_S)


@pytest.fixture
def kernel(process) -> Iterator[Kernel]:
    kernel = Kernel(*process)
    _, reply = kernel.run(SETUP)
    assert reply["status"] == "ok", reply
    yield kernel
    kernel.run("gate.set()")


@pytest.fixture
def page(kernel: Kernel) -> Iterator[PageOfTests]:
    page = PageOfTests(kernel)
    yield page
    page.leave()


@pytest.fixture
def later(kernel: Kernel) -> Iterator[PageOfTests]:
    """Another page, which opens later."""
    page = PageOfTests(kernel)
    yield page
    page.leave()


def test_page_that_comes_in_mid_run_is_told_of_it_and_stops_it(kernel, page):
    request = send_cell(kernel, "cell-7")
    kernel.until(lambda: any(TRACE in bundle for bundle in kernel.bundles(request)))
    page.open()
    feed_id = page.live_feeds[-1]
    assert page.told("feeds")[-1]["feeds"][-1]["cell_id"] == "cell-7"
    page.say_to(feed_id, kind="hello", have=-1)
    page.say_to(feed_id, kind="ping", nonce=5)
    page.until(lambda: bool(page.told("snapshot") and page.told("pong")))
    page.say_to(feed_id, kind="stop")
    assert kernel.reply(request)["status"] == "error"
    page.until(lambda: page.has_ended(feed_id))
    outputs = page.told("ended")[-1]["outputs"]
    assert [each["output_type"] for each in outputs] == ["display_data", "error"]
    assert outputs[0]["data"][TRACE]["feed_id"] == feed_id
    assert "Stopped: 1 of 2 tasks" in "".join(outputs[1]["traceback"])


def test_view_needs_no_widget_where_a_page_is_connected(kernel, page):
    page.open()
    request = send_cell(kernel, "cell-8")
    kernel.until(lambda: any(TRACE in bundle for bundle in kernel.bundles(request)))
    live = next(bundle for bundle in kernel.bundles(request) if TRACE in bundle)
    assert live[TRACE]["kind"] == "live"
    assert WIDGET not in live
    assert {"text/html", "text/plain"} <= set(live)
    page.say_to(live[TRACE]["feed_id"], kind="stop")
    kernel.reply(request)


def test_view_has_a_widget_and_our_type_where_no_page_is_connected(kernel):
    request = send_cell(kernel, "cell-9")
    kernel.until(lambda: any(WIDGET in bundle for bundle in kernel.bundles(request)))
    live = next(bundle for bundle in kernel.bundles(request) if WIDGET in bundle)
    assert live[TRACE]["kind"] == "live"
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["status"] == "error"


def test_kernel_says_busy_again_after_each_message_of_a_page(kernel, page):
    page.open()
    request = send_cell(kernel, "cell-10")
    kernel.until(lambda: any(TRACE in bundle for bundle in kernel.bundles(request)))
    ping = page.say_to(page.live_feeds[-1] if page.live_feeds else "?", kind="ping", nonce=1)
    kernel.until(lambda: kernel.is_idle(ping))
    kernel.until(lambda: states(kernel)[-1] == "busy")
    assert [parent for parent, state in states_by_parent(kernel) if state == "busy"][-1] == request
    kernel.manager.interrupt_kernel()
    kernel.reply(request)
    kernel.until(lambda: kernel.is_idle(request))
    kernel.run("1")
    assert states(kernel)[-1] == "idle"


def test_end_of_a_run_is_told_to_pages_that_come_later_until_one_has_kept_it(kernel, page, later):
    kernel.run("gate.set()")
    request = send_cell(kernel, "cell-11")
    kernel.reply(request)
    kernel.until(lambda: kernel.is_idle(request))
    page.open()
    feed_id = next(each["feed_id"] for each in page.told("feeds")[-1]["feeds"] if each["cell_id"] == "cell-11")
    page.until(lambda: page.has_ended(feed_id))
    kept = page.say(kind="kept", feed_id=feed_id)
    kernel.until(lambda: kernel.is_idle(kept))  # each page is heard on a thread of its own
    later.open()
    later.say_to(feed_id, kind="ping", nonce=1)
    later.until(lambda: bool(later.told("pong")))
    assert not later.has_ended(feed_id)


@pytest.mark.parametrize(
    "data", [None, 3, "stop", [], {}, {"kind": "eval"}, {"kind": ["feed"]}, {"kind": "feed"}, {"kind": "kept"}]
)
def test_nonsense_of_a_page_is_ignored(kernel, page, data):
    page.open()
    page.send("comm_msg", data=data)
    page.say(kind="list")
    page.until(lambda: len(page.told("feeds")) >= 2)


def test_unloading_leaves_no_target_and_no_sign(kernel):
    kernel.run("from comm import get_comm_manager")
    assert kernel.value("TARGET in get_comm_manager().targets".replace("TARGET", repr(TARGET))) == "True"
    kernel.run("%unload_ext ensemble_notebook")
    assert kernel.value("TARGET in get_comm_manager().targets".replace("TARGET", repr(TARGET))) == "False"
    left = f"[each for each in get_comm_manager().comms.values() if each.target_name == {TARGET!r}]"
    assert kernel.value(left) == "[]"


def send_cell(kernel: Kernel, cell_id: str) -> str:
    """Run the cell as JupyterLab does, which tells the id of the cell."""
    content = {"code": CELL, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
    message = kernel.client.session.msg("execute_request", {**content, "stop_on_error": True})
    message["metadata"]["cellId"] = cell_id
    kernel.client.shell_channel.send(message)
    return str(message["header"]["msg_id"])


def states_by_parent(kernel: Kernel) -> list[tuple[str, str]]:
    found = [message for message in kernel.messages if message["msg_type"] == "status"]
    return [(message["parent_header"].get("msg_id", ""), message["content"]["execution_state"]) for message in found]


def states(kernel: Kernel) -> list[str]:
    return [state for _, state in states_by_parent(kernel)]
