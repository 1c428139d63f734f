"""Random runs for hypothesis: graphs of tasks with all that can happen in one.

Retries, waits, tools, delegations, fallbacks, reviews, guardrails, memory, phases sent back, failures, skips, unknown
tokens, used-up budgets and interrupts.
"""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.enums import CaptureMode, ToolOutcome
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.domain.events import Event
from tests.support.event_builder import EventBuilder

SECONDS = (0.0, 0.1, 0.5, 1.0, 2.25)
DECISIONS = (
    None,
    ReviewDecision.approve(),
    ReviewDecision.edit("better"),
    ReviewDecision.retry("again"),
    ReviewDecision.reject("no"),
    ReviewDecision.exit_early(),
)


@st.composite
def streams(draw: Callable) -> tuple[Event, ...]:
    """All events of one run, well-formed."""
    return _Author(draw).write()


class _Author:
    """Draws a graph, then lets each task start when the last of what it reads has ended."""

    def __init__(self, draw: Callable) -> None:
        self.draw = draw
        names = [f"t{number}" for number in range(draw(st.integers(1, 4)))]
        self.tasks = {name: self.some(names[:place]) for place, name in enumerate(names)}
        self.phases = self.groups(names) if draw(st.booleans()) else {}
        self.after = {name: self.some(list(self.phases)[:place]) for place, name in enumerate(self.phases)}
        if self.phases:
            self.tasks = {
                name: [each for each in reads if self.phase(each) == self.phase(name)]
                for name, reads in self.tasks.items()
            }
        roles = {name: draw(st.sampled_from(["Writer", "Critic", "Handler"])) for name in names}
        self.handlers = {name for name, role in roles.items() if role == "Handler"}
        self.build = EventBuilder(
            self.tasks,
            phases=self.phases,
            after=self.after,
            agents=roles,
            provider=draw(st.sampled_from(["scripted", "openai", None])),
            model=draw(st.sampled_from(["gpt-4o-mini", "unheard-of"])),
            budget=draw(st.sampled_from([None, Budget(max_cost=1, max_tokens=1000)])),
            capture_mode=draw(st.sampled_from(CaptureMode)),
        )
        self.ends_s: dict[str, float] = {}
        self.lost: set[str] = set()
        self.hanging: set[str] = set()

    def write(self) -> tuple[Event, ...]:
        build = self.build
        if not self.phases:
            self.write_tasks(list(self.tasks))
        for name in self.phases:
            before = self.after[name]
            build.now_s = max((self.ends_s[each] for each in before), default=0.0)
            if self.hanging.intersection(before):
                self.hanging.add(name)
            elif self.lost.intersection(before):
                build.skip_phase(name)
                self.lost.add(name)
            else:
                with build.phase(name):
                    self.write_phase(self.phases[name])
                self.hanging.update({name} if self.hanging.intersection(self.phases[name]) else ())
                self.lost.update({name} if self.lost.intersection(self.phases[name]) else ())
            self.ends_s[name] = build.now_s
        build.now_s = max(self.ends_s.values())
        if not self.hanging:
            return build.finish()
        return build.interrupt() if self.draw(st.booleans()) else build.time_out()

    def write_phase(self, names: Sequence[str]) -> None:
        """The tasks of a phase, perhaps a look at them, and then perhaps all of them once more."""
        self.write_tasks(names)
        if self.draw(st.booleans()) and not (self.lost | self.hanging).intersection(names):
            if self.draw(st.booleans()):
                self.build.review(ReviewDecision.retry("again"), subject="phase", seconds=self.seconds())
            else:
                with self.build.review_by("Reviewer", ReviewDecision.retry("again")):
                    self.write_turns("done", depth=2)
            self.build.phase_again("again")
            self.write_tasks(names)

    def write_tasks(self, names: Sequence[str]) -> None:
        """Tasks that start as soon as they can."""
        build, start_s = self.build, self.build.now_s
        for name in names:
            build.now_s = max([start_s, *(self.ends_s[each] for each in self.tasks[name])])
            if self.hanging.intersection(self.tasks[name]):
                self.hanging.add(name)
            elif self.lost.intersection(self.tasks[name]):
                build.skip(name)
                self.lost.add(name)
            else:
                self.write_task(name)
            self.ends_s[name] = build.now_s
        build.now_s = max([start_s, *(self.ends_s[name] for name in names)])

    def write_task(self, name: str) -> None:
        fate = self.draw(st.sampled_from(["done", "done", "done", "lost", "hangs", "given up"]))
        if fate in ("lost", "given up"):
            self.lost.add(name)
        if fate == "hangs" and name not in self.handlers:
            self.hanging.add(name)
        queued_s = self.seconds()
        self.build.wait(queued_s)
        with self.build.task(name, queued_s=queued_s):
            self.write_steps()
            if name in self.handlers:
                self.build.wait(self.seconds())
            else:
                self.write_turns(fate)
            if fate == "lost" and name in self.handlers:
                self.build.fail(ValueError("no luck"))
            elif fate == "given up":
                self.build.give_up("the budget is used up")
            elif fate == "done":
                self.write_steps()

    def write_steps(self) -> None:
        """What surrounds the work of a task."""
        build, draw = self.build, self.draw
        for step in draw(st.lists(st.sampled_from(["memory", "guardrail", "score", "review"]), max_size=2)):
            if step == "memory":
                error = draw(st.sampled_from([None, OSError("disk")]))
                build.memory(draw(st.sampled_from(["retrieve", "store"])), "facts", seconds=self.seconds(), error=error)
            elif step == "guardrail":
                build.guardrail("polite", seconds=self.seconds())
            elif step == "score":
                error = draw(st.sampled_from([None, ValueError("no number")]))
                build.score("helpful", seconds=self.seconds(), error=error)
            else:
                decision = draw(st.sampled_from(DECISIONS))
                build.review(decision, seconds=self.seconds())
                if decision is not None and decision.verdict == "retry":
                    build.again(decision.text)

    def write_turns(self, fate: str, depth: int = 0) -> None:
        """The turns of an agent, perhaps after another one had no luck."""
        if not depth and self.draw(st.booleans()):
            self.write_turn(1, "lost", depth)
            self.build.fall_back("Substitute")
        turns = self.draw(st.integers(1, 2))
        for iteration in range(1, turns + 1):
            self.write_turn(iteration, fate if iteration == turns else "done", depth)

    def write_turn(self, iteration: int, fate: str, depth: int) -> None:
        draw, build = self.draw, self.build
        tools = draw(st.lists(st.sampled_from(["search", "fetch", "delegate"]), max_size=2)) if fate == "done" else []
        with build.turn(iteration):
            build.llm(
                f"reply {iteration}",
                seconds=self.seconds(),
                input_tokens=draw(st.sampled_from([None, 0, 7, 1000])),
                output_tokens=draw(st.sampled_from([None, 0, 3])),
                asks=tools,
                retries=draw(
                    st.lists(st.tuples(st.sampled_from(["429", "timeout"]), st.sampled_from(SECONDS)), max_size=2)
                ),
                waits=draw(
                    st.lists(st.tuples(st.sampled_from(["rate_limit", "budget"]), st.sampled_from(SECONDS)), max_size=1)
                ),
                error=ConnectionError("gone") if fate == "lost" else None,
                stream=draw(st.lists(st.sampled_from(["one ", "two", "sk-abc"]), max_size=3)),
                hangs=fate == "hangs",
            )
            for tool in build.beside(tools):
                if tool == "delegate":
                    self.write_delegation(depth)
                else:
                    build.tool(
                        tool,
                        seconds=self.seconds(),
                        error=draw(st.sampled_from([None, RuntimeError("broken")])),
                        outcome=draw(st.sampled_from(ToolOutcome)),
                    )

    def write_delegation(self, depth: int) -> None:
        """An agent asks another one, who may ask a third."""
        if depth == 2 or self.draw(st.booleans()):
            self.build.refuse("Helper", "Too deep.", tool="delegate")
            return
        with self.build.delegate("Helper", tool="delegate", seconds=self.seconds()):
            self.write_turns(self.draw(st.sampled_from(["done", "lost"])), depth + 1)

    def seconds(self) -> float:
        return self.draw(st.sampled_from(SECONDS))

    def some(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.draw(st.booleans())]

    def groups(self, names: Sequence[str]) -> dict[str, list[str]]:
        phases: dict[str, list[str]] = {}
        for name in names:
            number = len(phases) if not phases or self.draw(st.booleans()) else len(phases) - 1
            phases.setdefault(f"p{number}", []).append(name)
        return phases

    def phase(self, task: str) -> str:
        return next(name for name, members in self.phases.items() if task in members)
