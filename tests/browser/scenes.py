"""Whole teams at work, for whoever looks at what a view says of them: in a notebook, or at once under a virtual clock.

`REPORT` is a report in three phases, one of which its reviewer sends back until no retry is left; `HIER` is a manager
with two workers, who also asks somebody who does not exist. In a notebook, run the team's cell and then the scene's;
`PACE` in the team's cell says how fast it goes. `save_scene` gives the saved view of the same, without a kernel.
"""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import show_saved_view
from tests.support.drive import drive

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PACE: Final = "PACE = 1.0"
"""The line of both teams to replace, to have them work faster or slower."""

_WRITING: Final = """
import asyncio
from ensemble_notebook import Reply, ScriptedChatModel, ToolUse

PACE = 1.0

def say(text, seconds):
    return Reply(text, delay=seconds * PACE)

def call(*calls, seconds):
    return Reply(calls=[ToolUse(name, arguments) for name, arguments in calls], delay=seconds * PACE)
"""
REPORT_TEAM: Final = f'''{_WRITING}
async def search(query: str) -> str:
    """Search the archive."""
    await asyncio.sleep(0.9 * PACE)
    return f"three papers about {{query}}"

async def look_up(vendor: str) -> str:
    """Look a vendor up in the ledger."""
    raise LookupError(f"the ledger is closed: {{vendor}}")

async def survey(topic: str) -> str:
    """Ask everybody, which takes its time."""
    await asyncio.sleep(4 * PACE)
    return f"Twelve answers about {{topic}}; most buy from a single supplier."

def delegate(role, description):
    return "delegate", {{"agent_role": role, "task_description": description}}

model = ScriptedChatModel.match({{
    "## Task\\nFind out how large": [
        call(("search", {{"query": "market size"}}), seconds=1.2),
        say("The market is worth 4 bn, and Acme has a third.", 1.4)],
    "## Task\\nCompare prices": [
        call(("look_up", {{"vendor": "Acme"}}), seconds=0.8), call(("search", {{"query": "prices"}}), seconds=0.9),
        say("Acme asks 12, the others 15 to 19.", 1.3)],
    "## Task\\nName the competitors": [
        call(("survey", {{"topic": "suppliers"}}), seconds=1.0), say("Acme, Bolt and Crane.", 1.1)],
    "## Task\\nList the risks": [
        call(delegate("Researcher", "Which risk do buyers name first?"), seconds=1.0),
        say("Acme is a single supplier.", 1.6)],
    "## Task\\nWhich risk do buyers name first": say("That they depend on one supplier.", 1.5),
    "## Task\\nWrite the report": say("# Pumps\\n\\nBuy from Acme, and keep a second supplier. " * 6, 2.6),
    "## Task\\nCheck every figure": say("All figures have a source.", 1.7),
    "## Task\\nFind a title": say("Pumps, and who sells them", 0.9),
    "## Task\\nIs it ready": say("RETRY: shorter, and name the vendor", 1.5),
    "## Task\\nSign it off": say("Signed off.", 1.1),
}}, default="Fine.")
'''
REPORT: Final = """%%ensemble -o report --name report
llm: model
budget: $0.50
cost: {input_rate: 0.0000025, output_rate: 0.00001}
agents:
  Researcher: {goal: Find facts that can be checked, tools: [search, look_up, survey]}
  Strategist: {goal: Weigh one thing against another, allow_delegation: true}
phases:
  research:
    workflow: parallel
    tasks:
      market: {description: Find out how large the market is, agent: Researcher}
      prices: {description: Compare prices, agent: Researcher}
      competitors: {description: Name the competitors, agent: Researcher}
      risks: {description: List the risks, agent: Strategist}
  writing:
    after: [research]
    review:
      by: {description: "Is it ready? Answer APPROVE or RETRY", llm: model}
      max_retries: 2
      on_exhausted: keep
    tasks:
      draft: {description: Write the report, agent: Strategist}
      check: {description: Check every figure of it, agent: Researcher, context: [draft]}
      title: {description: Find a title for it, agent: Strategist, context: [draft]}
  publish:
    after: [writing]
    tasks:
      sign_off: {description: Sign it off, agent: Strategist, review: after}
"""

HIER_TEAM: Final = f"""{_WRITING}
def ask(role, description):
    return "delegate_task", {{"agent_role": role, "task_description": description}}

model = ScriptedChatModel.match({{
    "You are Manager": [
        call(ask("Researcher", "Find three facts about tides"), seconds=2.0),
        call(ask("Poet", "Make a poem of them"), seconds=1.5),
        call(ask("Writer", "Write a brief from these facts: high, low, and the moon"), seconds=1.5),
        say("# Tides\\n\\nHigh, low, and the moon.", 2.2)],
    "## Task\\nFind": say("High, low, and the moon.", 17.0),
    "## Task\\nWrite": say("The tide turns twice a day.", 18.0),
}}, default="Fine.")
"""
HIER: Final = """%%ensemble -o brief --name newsroom
workflow: hierarchical
manager_llm: model
llm: model
agents:
  Researcher: {goal: Find facts}
  Writer: {goal: Write well}
tasks:
  - Find three facts about tides
  - Write a brief from them
"""


SENT_BACK_TEAM: Final = f"""{_WRITING}
model = ScriptedChatModel.match({{
    "## Task\\nFind": say("Four facts about pumps.", 2.0),
    "## Task\\nWrite": say("A long draft about pumps. " * 20, 3.0),
    "## Task\\nSum": say("Pumps last.", 1.2),
}}, default="Fine.")
"""
SENT_BACK: Final = """%%ensemble -o pumps --name pumps
llm: model
tasks:
  find: Find facts
  draft: {description: Write the report, context: [find], review: after}
  sum: {description: Sum it up, context: [draft]}
"""


@functools.cache
def run_report() -> ExecutionTrace:
    """The report, in virtual time; a person approves it after four seconds."""
    return _run(REPORT_TEAM, REPORT)


@functools.cache
def run_hier() -> ExecutionTrace:
    """The manager and its workers, in virtual time."""
    return _run(HIER_TEAM, HIER)


@functools.cache
def run_sent_back() -> ExecutionTrace:
    """A task that a person sends back twice, in virtual time."""
    return _run(SENT_BACK_TEAM, SENT_BACK, "shorter, and name the vendor", "still too long")


def save_scene(trace: ExecutionTrace) -> dict[str, Any]:
    """What a notebook saves of a run, as views read it."""
    return TimelineMessages(copy(trace._fold)).make_saved_view()


def show_saved(page: Page, trace: ExecutionTrace) -> Locator:
    """Show the saved view of a run in the page that `open_view` has opened."""
    return show_saved_view(page, save_scene(trace))


def _run(team: str, cell: str, *wishes: str) -> ExecutionTrace:
    """Run a team's cell; a person sends the work back with each of these wishes, and then approves it."""
    names: dict[str, Any] = {}
    left = iter(wishes)

    async def review(request: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(4)
        wish = next(left, None)
        return ReviewDecision.approve() if wish is None else ReviewDecision.retry(wish)

    exec(team, names)
    ensemble = read_cell(cell.partition("\n")[2], names).build(names)
    work = functools.partial(drive, ensemble, source=ModelSource(), review_handler=review, pricing=calculate_price)
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps a loop running on this one
        _, events = thread.submit(work).result()
    return ExecutionTrace.from_events(events, ensemble.cost)
