"""The channel to a page of JupyterLab or Notebook 7: one comm that carries the messages of all runs (W13).

Our extension opens it on a subshell, so that it works while a cell blocks the main thread, and after a reload of the
page. Messages of a page are not trusted: one that makes no sense is ignored and logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from comm import create_comm, get_comm_manager
from IPython.core.getipython import get_ipython

from ensemble_notebook.notebook.live.frontend import is_served_by_voila
from ensemble_notebook.notebook.live.run_feed import Feed, RunFeed, find_feed, list_feeds

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


TARGET: Final = "ensemble_notebook.live"
MOST_PAGES: Final = 8
"""A page that went without a word is never heard of again; the oldest make way."""

logger = logging.getLogger(__name__)


class PageChannels:
    """The channels of all pages that are connected with this kernel.

    A kernel sends "idle" after every message it has handled, even one on a subshell while a cell is still running on
    the main thread. Frontends, and servers that cull idle kernels, believe the last status: so "busy" is said again.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cell: dict[str, Any] | None = None
        self._ending: tuple[RunFeed, list[dict[str, Any]]] | None = None
        self._pages: list[PageChannel] = []
        self._lock = threading.Lock()
        # Pages ask which comms there are for the target before they open one: a kernel logs an error otherwise.
        self._sign = create_comm(target_name=TARGET, primary=False)

    def begin(self) -> None:
        """Let pages open channels."""
        manager = get_comm_manager()
        manager.register_target(TARGET, self._open)
        manager.register_comm(self._sign)
        self._shell.events.register("pre_run_cell", self._notice_cell)
        self._shell.events.register("post_run_cell", self._notice_cell_end)

    def end(self) -> None:
        """Let them no more, and forget those that are open."""
        manager = get_comm_manager()
        manager.unregister_target(TARGET, self._open)
        _close_silently(self._sign)
        with self._lock:
            pages, self._pages = self._pages, []
        for page in pages:
            page.close()
        self._shell.events.unregister("pre_run_cell", self._notice_cell)
        self._shell.events.unregister("post_run_cell", self._notice_cell_end)
        self._cell = None

    def renew_busy(self) -> None:
        """Schedule another "busy" for after the message that this thread is handling, which ends with "idle"."""
        if self._cell is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no thread of a kernel's loop
            return
        loop.call_soon(self._say_busy)

    def _say_busy(self) -> None:
        cell = self._cell
        if cell is None:
            return
        self._publish("busy", cell)
        if self._cell is not cell:  # it ended just now, and its own "idle" may have come before our "busy"
            self._publish("idle", cell)

    def _publish(self, state: str, parent: dict[str, Any]) -> None:
        kernel: Any = getattr(self._shell, "kernel", None)
        if kernel is not None:
            ident = f"kernel.{kernel.ident}.status".encode()
            kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=ident)

    @property
    def has_pages(self) -> bool:
        """A page is connected: it can show a run by its feed alone."""
        return bool(self._list_pages())

    def tell_feeds(self) -> None:
        """Tell all pages which runs there are."""
        for page in self._list_pages():
            page.tell_feeds()

    def tell_picture(self, feed: RunFeed, picture: dict[str, Any]) -> None:
        """Give all pages a newer picture of a run: one that was loaded since it began hears of no updated output."""
        for page in self._list_pages():
            page.send_of(feed.feed_id, {"kind": "picture", "data": picture}, None)

    def end_run(self, feed: RunFeed, bundles: Sequence[dict[str, Any]], *, is_in_cell: bool) -> None:
        """A run has shown its last outputs. Where its cell still runs, pages are told when that is over, too."""
        outputs = [{"output_type": "display_data", "metadata": {}, "data": each} for each in bundles]
        if is_in_cell:
            self._ending = (feed, outputs)
        else:
            self._tell_ended(feed, outputs)

    def _notice_cell(self, _info: object = None) -> None:
        self._cell = getattr(self._shell, "get_parent", dict)() or None

    def _notice_cell_end(self, result: Any = None) -> None:
        self._cell = None
        ending, self._ending = self._ending, None
        if ending is not None:
            feed, outputs = ending
            error = getattr(result, "error_in_exec", None)
            self._tell_ended(
                feed,
                outputs if error is None else [*outputs, self._make_error_output(error)],
                getattr(result, "execution_count", None),
            )

    def _make_error_output(self, error: BaseException) -> dict[str, Any]:
        """As the notebook's file has it."""
        render = getattr(error, "_render_traceback_", None)
        lines = (
            self._shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
            if render is None
            else render()
        )
        return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": list(lines)}

    def _tell_ended(self, feed: RunFeed, outputs: Sequence[dict[str, Any]], execution_count: int | None = None) -> None:
        """Tell all pages, also those that come later, what a cell has shown last, and its number."""
        message = {"kind": "ended", "outputs": list(outputs), "execution_count": execution_count}
        with _unkept_lock:
            for other in [each for each in _unkept if each.cell_id == feed.cell_id]:
                del _unkept[other]  # the cell has been run again since
            _unkept[feed] = message
        for page in self._list_pages():
            page.send_of(feed.feed_id, message, None)

    def _list_pages(self) -> list[PageChannel]:
        """The pages that are there. One that left may have taken its subshell along before we heard its farewell."""
        subshells = list_subshells(self._shell)
        with self._lock:
            pages = list(self._pages)
        for page in pages:
            if subshells is not None and page.subshell_id not in subshells:
                self.forget(page)
                page.close()
        return [page for page in pages if subshells is None or page.subshell_id in subshells]

    def _open(self, comm: Any, message: dict[str, Any]) -> None:
        page = PageChannel(comm, self, message["header"].get("subshell_id"))
        with self._lock:
            self._pages.append(page)
            surplus = self._pages[:-MOST_PAGES]
        for each in surplus:
            self.forget(each)
            each.close()
        page.tell_all()
        self.renew_busy()

    def forget(self, page: PageChannel) -> None:
        """A page has gone."""
        with self._lock:
            if page in self._pages:
                self._pages.remove(page)


class PageChannel:
    """One page. Its messages come on the thread of its subshell."""

    def __init__(self, comm: Any, channels: PageChannels, subshell_id: str | None) -> None:
        self.subshell_id: Final = subshell_id
        self._comm = comm
        self._channels = channels
        self._subscribers: weakref.WeakKeyDictionary[Feed, _FeedSubscriber] = weakref.WeakKeyDictionary()
        answer_at_once(comm)
        comm.on_msg(self._receive)
        comm.on_close(self._leave)

    def tell_all(self) -> None:
        """What a page needs to know first: which runs there are, and what no page has kept of those that are over."""
        self.tell_feeds()
        with _unkept_lock:
            unkept = list(_unkept.items())
        for feed, message in unkept:
            self.send_of(feed.feed_id, message, None)

    def tell_feeds(self) -> None:
        """Which runs there are, and in which cells."""
        feeds = [{"feed_id": each.feed_id, "cell_id": each.cell_id, "is_live": each.is_live} for each in list_feeds()]
        self._send({"kind": "feeds", "feeds": feeds})

    def send_of(self, feed_id: str, content: dict[str, Any], buffers: Sequence[Any] | None) -> None:
        """Send a message of a feed on."""
        self._send({"kind": "feed", "feed_id": feed_id, "content": content}, buffers)

    def close(self) -> None:
        """The kernel lets go of the page."""
        self._send({"kind": "closed"})
        self._unsubscribe()
        _close_silently(self._comm)

    def _send(self, data: dict[str, Any], buffers: Sequence[Any] | None = None) -> None:
        self._comm.send(data, buffers=None if buffers is None else list(buffers))

    def _receive(self, message: dict[str, Any]) -> None:
        """Answer the page."""
        try:
            data = message["content"]["data"]
            kind = data.get("kind") if isinstance(data, dict) else None
            feed = find_feed(str(data.get("feed_id"))) if kind in ("feed", "kept") else None
            if kind == "list" or (kind == "feed" and feed is None):
                self.tell_feeds()
            elif kind == "feed" and feed is not None:
                subscriber = self._subscribers.get(feed)
                if subscriber is None:
                    subscriber = self._subscribers[feed] = _FeedSubscriber(self, feed.feed_id)
                    feed.subscribe(subscriber)
                feed.receive(subscriber, data.get("content"))
            elif kind == "kept":
                with _unkept_lock:
                    if isinstance(feed, RunFeed):
                        _unkept.pop(feed, None)
            else:
                logger.warning("A page has sent what is no message of ours: %.200r", data)
        except Exception:
            logger.exception("A message of a page can't be answered.")
        finally:
            self._channels.renew_busy()

    def _unsubscribe(self) -> None:
        for feed, subscriber in list(self._subscribers.items()):
            feed.unsubscribe(subscriber)
        self._subscribers.clear()

    def _leave(self, _message: object) -> None:
        self._unsubscribe()
        self._channels.forget(self)
        self._channels.renew_busy()


class _FeedSubscriber:
    """Carries the messages of one feed to one page."""

    def __init__(self, page: PageChannel, feed_id: str) -> None:
        self._page = page
        self._feed_id = feed_id

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None, /) -> None:
        self._page.send_of(self._feed_id, content, buffers)


_channels: weakref.WeakKeyDictionary[InteractiveShell, PageChannels] = weakref.WeakKeyDictionary()
_unkept: weakref.WeakKeyDictionary[RunFeed, dict[str, Any]] = weakref.WeakKeyDictionary()
_unkept_lock: Final = threading.Lock()


def begin_page_channels(shell: InteractiveShell) -> None:
    """Let pages connect, if this kernel can hear them beside a busy cell; a second time changes nothing."""
    if shell not in _channels and has_subshells(shell) and not is_served_by_voila():  # which has no notebook to connect
        channels = _channels[shell] = PageChannels(shell)
        channels.begin()


def end_page_channels(shell: InteractiveShell) -> None:
    """Let them no more."""
    channels = _channels.pop(shell, None)
    if channels is not None:
        channels.end()


def find_page_channels() -> PageChannels | None:
    """The channels of this kernel; None where it has none."""
    shell = get_ipython()
    return None if shell is None else _channels.get(shell)


def has_subshells(shell: InteractiveShell) -> bool:
    """Whether the kernel handles messages beside a busy cell."""
    return bool(getattr(getattr(shell, "kernel", None), "_supports_kernel_subshells", False))


def list_subshells(shell: InteractiveShell) -> list[str | None] | None:
    """The ids of the subshells, with that of the main one; None where the kernel can't tell. No public way tells it."""
    manager = getattr(getattr(getattr(shell, "kernel", None), "shell_channel_thread", None), "manager", None)
    known = getattr(manager, "list_subshell", None)
    return None if known is None else [None, *known()]


def answer_at_once(comm: Any) -> None:
    """Have messages of a comm delivered where the frontend wants them, which is beside a busy cell.

    ipykernel 7.4 sends them to the shell that last used the comm, which is the busy one. Where there is no such
    routing, nothing changes; the view finds out by a ping whether its buttons work.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default


def _close_silently(comm: Any) -> None:
    """Close a comm without a word: a frontend that does not know it would log an error."""
    manager: Any = get_comm_manager()
    manager.comm_close(None, None, {"content": {"comm_id": comm.comm_id, "data": {}}})
