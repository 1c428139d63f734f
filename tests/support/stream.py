"""Random runs for hypothesis: graphs of tasks with retries, tools, failures, skips, unknown tokens and interrupts."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from ensemble_notebook.domain.choice import ToolOutcome
from ensemble_notebook.domain.event import Event
from ensemble_notebook.testing.event import EventBuilder

SECONDS = (0.0, 0.1, 0.5, 1.0, 2.25)


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
                    self.write_tasks(self.phases[name])
                self.hanging.update({name} if self.hanging.intersection(self.phases[name]) else ())
                self.lost.update({name} if self.lost.intersection(self.phases[name]) else ())
            self.ends_s[name] = build.now_s
        build.now_s = max(self.ends_s.values())
        if not self.hanging:
            return build.finish()
        return build.interrupt() if self.draw(st.booleans()) else build.time_out()

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
        fate = self.draw(st.sampled_from(["done", "done", "done", "lost", "hangs"]))
        if fate == "lost":
            self.lost.add(name)
        if fate == "hangs" and name not in self.handlers:
            self.hanging.add(name)
        queued_s = self.seconds()
        self.build.wait(queued_s)
        with self.build.task(name, queued_s=queued_s):
            if name in self.handlers:
                self.build.wait(self.seconds())
                if fate == "lost":
                    self.build.fail(ValueError("no luck"))
                return
            turns = self.draw(st.integers(1, 2))
            for iteration in range(1, turns + 1):
                self.write_turn(iteration, fate if iteration == turns else "done")

    def write_turn(self, iteration: int, fate: str) -> None:
        draw, build = self.draw, self.build
        tools = draw(st.lists(st.sampled_from(["search", "fetch"]), max_size=2)) if fate == "done" else []
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
                error=ConnectionError("gone") if fate == "lost" else None,
                stream=draw(st.lists(st.sampled_from(["one ", "two", "sk-abc"]), max_size=3)),
                hangs=fate == "hangs",
            )
            for tool in build.beside(tools):
                build.tool(
                    tool,
                    seconds=self.seconds(),
                    error=draw(st.sampled_from([None, RuntimeError("broken")])),
                    outcome=draw(st.sampled_from(ToolOutcome)),
                )

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
