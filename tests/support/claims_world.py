"""Random runs with a reviewed tool that counts: batches, kills, stale runs, two processes that answer at once (E127).

Run as a script, ``python -m tests.support.claims_world FOLDER SEED...``, it prints what became of each seed as JSON.
Each process of a world is forked from this one, which has imported all and started nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_notebook import Agent, Ensemble, EnsembleError, Reply, ScriptedChatModel, Task, Tool, ToolUse

MOST_STEPS = 40
MUCH = 100
_NAMED = re.compile(r"Go on from there: resume='(\w+)'")


@dataclass
class World:
    """One run that is made over and over, until it is done.

    Attributes:
        folder: of its store, its book and what its processes say.
        turns: the calls of each reply: name, order and amount.
        way: how the agent is reached.
        has_rule: whether small amounts are paid without asking.
        deadly: orders at which the process dies, before or after the payment is in the book.
    """

    seed: int
    folder: Path
    draw: random.Random = field(init=False)
    turns: list[list[tuple[str, str, int]]] = field(init=False)
    way: str = field(init=False)
    has_rule: bool = field(init=False)
    deadly: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        orders = iter(range(100))
        self.turns = [
            [
                (
                    "refund" if self.draw.random() < 0.7 else "order_status",
                    str(next(orders)),
                    self.draw.choice([5, 500]),
                )
                for _ in range(self.draw.randint(1, 4))
            ]
            for _ in range(self.draw.randint(1, 3))
        ]
        self.way = self.draw.choice(["python", "task", "tool", "item"])
        self.has_rule = self.draw.random() < 0.3
        refunds = [order for turn in self.turns for name, order, _ in turn if name == "refund"]
        self.deadly = {order: self.draw.choice(["before", "after"]) for order in refunds if self.draw.random() < 0.2}

    def make(self) -> Ensemble:
        """The ensemble, which is the same in each process."""

        def refund(order: str, amount: float) -> str:
            """Give the money of an order back."""
            died = self.folder / f"died-{order}"
            dies = self.deadly.get(order) if not died.exists() else None
            if dies is not None:
                died.touch()
            if dies != "before":
                with (self.folder / "book").open("a") as book:
                    book.write(f"{order} {amount:g}\n")
            if dies is not None:
                os._exit(9)
            return f"paid {amount:g}"

        def order_status(order: str, amount: float) -> str:
            """Look an order up."""
            return f"{order} is late"

        review: Any = (lambda call: call.arguments["amount"] > MUCH) if self.has_rule else "before"
        tools = [order_status, Tool(refund, review=review)]
        agent = Agent(role="Clerk", goal="Settle", llm=ScriptedChatModel(default=self._reply), tools=tools)
        return self._wrap(Task.of("Settle", name="settle", agent=agent))

    def _reply(self, messages: Any) -> Any:
        turn = sum(each.type == "ai" for each in messages)
        if turn >= len(self.turns):
            return "done"
        return Reply(calls=[ToolUse(name, {"order": order, "amount": n}) for name, order, n in self.turns[turn]])

    def _wrap(self, task: Task) -> Ensemble:
        if self.way == "item":
            task = task.replace(for_each=["one"], description="Settle {item}")
        inner = Ensemble(tasks=[task], name="claims")
        if self.way == "task":
            return Ensemble(tasks=[Task(name="whole", ensemble=inner)])
        if self.way == "tool":
            calls = [inner.as_tool("claims", "Settles claims.")]
            use = ToolUse("claims", {})
            llm = ScriptedChatModel(default=lambda messages: "done" if messages[-1].type == "tool" else use)
            return Ensemble(tasks=[Task.of("See to it", agent=Agent(role="Head", goal="Head", llm=llm, tools=calls))])
        return inner

    def run_apart(self, processes: list[dict[str, Any]], kill_after_s: float | None) -> list[dict[str, Any]]:
        """Run in processes of their own, side by side; what each says, which is nothing where it was killed."""
        children = []
        for number, given in enumerate(processes):
            said = self.folder / f"said-{number}"
            said.unlink(missing_ok=True)
            if (child := os.fork()) == 0:
                self.run_here(given, said)
            children.append((child, said))
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            os.kill(children[0][0], signal.SIGKILL)
        for child, _ in children:
            os.waitpid(child, 0)
        return [json.loads(said.read_text()) if said.exists() else {} for _, said in children]

    def run_here(self, given: dict[str, Any], said: Path, at_end: Callable[[], object] = bool) -> None:
        """The life of a process, which ends here whatever happens."""
        try:
            os.environ["ENSEMBLE_NOTEBOOK_STORE"] = str(self.folder / "runs.db")
            try:
                if "resume" in given:  # which calls again what was at work, but none that is reviewed
                    around = ["claims"] if self.way == "tool" else []
                    given = {**given, "redo": [*around, "order_status", "refund"]}
                output = self.make().run(**given)
                waiting = [[each.id, each.arguments["order"]] for each in output.pending]
                found = {"run_id": output.run_id, "status": output.status.value, "waiting": waiting}
            except EnsembleError as error:
                found = {"refused": str(error)}
            text = json.dumps(found)
            (half := said.with_suffix(".half")).write_text(text)
            half.rename(said)
            at_end()
        except BaseException as error:  # noqa: BLE001 - nothing of this process may go on in the parent's code
            sys.stderr.write(f"seed {self.seed}: {error!r}\n")
        finally:
            os._exit(0)


def live(world: World) -> dict[str, Any]:
    """Live a world to its end, and look into the book: what was paid, and what somebody had allowed by then."""
    draw = world.draw
    known: list[str] = []
    allowed: dict[str, str] = {}  # the order of each call that somebody has allowed, by the id of the call
    facts: Counter[str] = Counter()
    is_done, given = False, dict[str, Any]()
    for _ in range(MOST_STEPS):
        processes = [given] * (2 if given.get("answers") and draw.random() < 0.2 else 1)
        found = world.run_apart(processes, draw.uniform(0.0, 0.15) if draw.random() < 0.25 else None)
        facts["processes"] += len(processes)
        facts["killed"] += sum(not each for each in found)
        facts["refused"] += sum("refused" in each for each in found)
        facts["at_once"] += len(processes) - 1
        said = next((each for each in found if "status" in each), None)
        if said is None:  # what waits is to be seen first, where another run has used an answer
            named = [hint.group(1) for each in found if (hint := _NAMED.search(each.get("refused", "")))]
            given = {"resume": named[0] if named else "-1"} if known else {}
            if named and draw.random() < 0.5:  # two runs may each have used an answer that the other one waits for
                given["anyway"] = True
            continue
        known.append(said["run_id"])
        if is_done := said["status"].startswith("completed"):
            break
        given = {"resume": draw.choice(known) if draw.random() < 0.15 else "-1"}
        if answers := _answer(draw, said["waiting"], allowed):
            given |= {"answers": answers, "anyway": True}
            facts["answers"] += len(answers)
    paid, faults = _read_book(world, Counter(allowed.values()))
    return {"seed": world.seed, "way": world.way, "done": is_done, "payments": paid, "faults": faults, **facts}


def _answer(draw: random.Random, waiting: list[list[str]], allowed: dict[str, str]) -> dict[str, str]:
    """Answers to some of the calls that wait; what they allow is noted first."""
    answers = {}
    for call_id, order in waiting:
        word = draw.choice(["approve", "approve", "approve", "reject", "wait"])
        if word != "wait":
            answers[call_id] = word
        if word == "approve":
            allowed[call_id] = order
    return answers


def _read_book(world: World, allowed: Counter[str]) -> tuple[int, list[str]]:
    """How often money was paid, and what of it nobody had allowed."""
    book = world.folder / "book"
    paid = Counter(line.split()[0] for line in book.read_text().splitlines()) if book.exists() else Counter[str]()
    free = {order for turn in world.turns for _, order, amount in turn if world.has_rule and amount <= MUCH}
    unasked = {order: count for order, count in paid.items() if count > allowed[order] and order not in free}
    return paid.total(), [f"{order}: {count} payments, {allowed[order]} allowed" for order, count in unasked.items()]


def _import_all(folder: Path) -> None:
    """Import here what a process of a world imports, so that each has it already."""
    (place := folder / "first").mkdir(parents=True)
    names = place / "names"
    if (child := os.fork()) == 0:
        World(0, place).run_here({}, place / "said", lambda: names.write_text("\n".join(sys.modules)))
    os.waitpid(child, 0)
    for name in names.read_text().split():
        if name.partition(".")[0] in ("ensemble_notebook", "langchain_core", "pydantic", "jsonschema_rs", "sqlite3"):
            importlib.import_module(name)


def main(folder: Path, seeds: list[int], tell: Callable[[str], object] = print) -> None:
    """Live these worlds."""
    _import_all(folder)
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir(parents=True)
        tell(json.dumps(live(World(seed, place))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(each) for each in sys.argv[2:]])
