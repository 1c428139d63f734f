"""Random runs, each request and tool call of which says where it stands, and an oracle of what a fork of one does anew.

Where something stands is a path such as ``t2.0/s0.1/u0/t1.0/i2/s0.0``: task 2, round 0; its agent's reply 1 (of no
fallback); tool call 0 of that; of the team that this tool runs task 1, its item 2, reply 0. The model learns from its
prompt where it stands, and does what was drawn for that place. The oracle compares two paths at the first place where
they differ, and knows nothing of spans and stores.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook import Agent, Ensemble, GuardrailResult, Phase, ReviewDecision, Task
from tests.support.openai_server import Answer, Request

_ORDER: Final = re.compile(r"<<do:([^>]*)>>")
_PLACE: Final = re.compile(r"\[([tr][^\]]*)\]")
Path = tuple[str, ...]


@dataclass(eq=False)
class Use:
    """One tool call: of a plain tool, of one that runs a team, or of the one that delegates."""

    kind: str
    team: Team | None = None
    worker: Work | None = None


@dataclass(eq=False)
class Work:
    """One task: what its agent does, reply by reply, or the teams that do it.

    It may have a condition on an earlier task, which is met or not, and share a memory with others.
    """

    reads: tuple[int, ...] = ()
    phase: int | None = None
    turns: Sequence[Sequence[Use]] = ()
    objections: int = 0
    has_fallback: bool = False
    is_flaky: bool = False
    item_count: int = 0
    how: str = "agent"
    teams: Sequence[Team] = ()
    tests: Sequence[int] = ()
    is_met: bool = True
    scope: str = ""


@dataclass(eq=False)
class Team:
    """Tasks of one ensemble; who sends a phase back, by phase: a function, a task, or a condition.

    A phase may open by a condition on a task of another one. Of a managed team the only work is that of the manager.
    """

    works: list[Work] = field(default_factory=list)
    rounds: dict[int, str] = field(default_factory=dict)
    openings: dict[int, int] = field(default_factory=dict)
    workflow: str = "sequential"
    is_run_by_code: bool = False

    @property
    def is_managed(self) -> bool:
        """Whether a manager has others do the tasks."""
        return self.workflow == "hierarchical"


class World:
    """One random run: its ensemble, its model, its tools, and what was asked of them.

    Args:
        seed: of the draws.
        url: of the server.
        says_the_same: whether a place is answered alike each time; else each answer is another one.
    """

    def __init__(self, seed: int, url: str, *, says_the_same: bool = False) -> None:
        self._draw = random.Random(seed)
        self._draw_more = random.Random(f"more of {seed}")
        self._llm = f"openai:test-model@{url}"
        self._numbers = itertools.repeat(0) if says_the_same else itertools.count(1)
        self._works: dict[str, Work] = {}
        self._teams: dict[str, Ensemble] = {}
        self._failed: set[str] = set()
        self.asked: list[str] = []
        self.called: list[str] = []
        self.team = self._draw_team("", depth=0)
        self.ensemble = self._build(self.team, "", is_outermost=True)

    def clear(self) -> None:
        """Forget what was asked and called."""
        self.asked.clear()
        self.called.clear()
        self._failed.clear()

    # --- Drawing -----------------------------------------------------------------------------------------------------

    def _draw_team(self, prefix: str, depth: int, *, is_run_by_code: bool = False) -> Team:
        draw = self._draw
        count = draw.randint(2, 4) if depth == 0 else draw.randint(1, 2)
        # What code runs is not known before it does: there, all that came later counts.
        team = Team(workflow=draw.choice(["sequential", "parallel"]), is_run_by_code=is_run_by_code)
        if is_run_by_code:
            team.workflow = "sequential"
        has_phases = depth == 0 and draw.random() < 0.6
        for at in range(count):
            phase = (at * 2) // count if has_phases else None
            reads = tuple(each for each in range(at) if draw.random() < 0.4)
            team.works.append(self._draw_work(f"{prefix}t{at}", depth, reads, phase))
        for phase in {each.phase for each in team.works} - {None}:
            if draw.random() < 0.6:
                team.rounds[phase] = draw.choice(["function", "task", "condition"])
                for each in team.works:
                    each.objections = 0 if each.phase == phase else each.objections
        self._draw_links(team)
        if not has_phases and self._draw_more.random() < 0.2:
            self._put_manager(team, f"{prefix}t0")
        return team

    def _draw_links(self, team: Team) -> None:
        """Conditions, and memories: where tasks are done side by side, nobody knows which of them remembers which."""
        draw = self._draw_more
        # What a phase is done until must be done.
        last = {each.phase: at for at, each in enumerate(team.works) if team.rounds.get(each.phase or 0) == "condition"}
        for at, work in enumerate(team.works):
            if at and draw.random() < 0.25 and at not in last.values():
                work.tests, work.is_met = [draw.randrange(at)], draw.random() < 0.7
            if team.workflow == "sequential" and work.how == "agent" and not work.item_count:
                work.scope = draw.choice(["", "", "notes", "facts"])
            if work.phase and draw.random() < 0.3:
                team.openings.setdefault(work.phase, draw.choice(self._list_before(team, work.phase)))

    @staticmethod
    def _list_before(team: Team, phase: int) -> list[int]:
        return [at for at, each in enumerate(team.works) if each.phase is not None and each.phase < phase]

    def _put_manager(self, team: Team, place: str) -> None:
        """Let a manager have others do what the tasks of a team say, so that nothing of them is drawn but that."""
        draw, turns = self._draw_more, list[list[Use]]()
        for turn in range(draw.randint(1, 2)):
            uses = [Use("delegate_task") for _ in range(draw.randint(1, 2))]
            for number, use in enumerate(uses):
                use.worker = self._draw_worker(f"{place}/s0.{turn}/u{number}/w")
            turns.append(uses)
        team.workflow, team.works = "hierarchical", [Work(turns=turns)]
        self._works[place] = team.works[0]

    def _draw_worker(self, place: str) -> Work:
        """The work that a manager has somebody do."""
        uses = [[Use("look")] * self._draw_more.randint(1, 2)] * self._draw_more.randint(0, 1)
        work = self._works[place] = Work(turns=uses, is_flaky=self._draw_more.random() < 0.15)
        return work

    def _draw_work(
        self, place: str, depth: int, reads: tuple[int, ...] = (), phase: int | None = None, *, is_agent: bool = False
    ) -> Work:
        draw = self._draw
        work = self._works[place] = Work(reads=reads, phase=phase)
        if not is_agent and depth == 0 and phase is None and draw.random() < 0.35:
            work.how = draw.choice(["ensemble", "handler"])
            count = 1 if work.how == "ensemble" else draw.randint(1, 2)
            by_code = work.how == "handler"
            work.teams = [self._draw_team(f"{place}/n{n}/", depth + 1, is_run_by_code=by_code) for n in range(count)]
            return work
        turns = []
        for turn in range(draw.choice([0, 0, 1, 1, 2])):
            uses = []
            for number in range(draw.choice([1, 1, 1, 2])):
                inner = f"{place}/s0.{turn}/u{number}/"
                kind = draw.choice(["look", "team", "delegate"]) if depth < 2 else "look"
                use = Use(kind)
                if kind == "team":
                    use.team = self._draw_team(inner, depth + 2, is_run_by_code=draw.random() < 0.5)
                    use.kind = "ask_team" if use.team.is_run_by_code else f"ask_{len(self._works)}"
                elif kind == "delegate" and depth == 0:
                    use.worker = self._draw_work(f"{inner}w", 2, is_agent=True)
                else:
                    use.kind = "look"
                uses.append(use)
            turns.append(uses)
        work.turns = turns
        if not is_agent:
            work.objections = draw.choice([0, 0, 0, 1, 2])
            work.has_fallback = work.objections == 0 and draw.random() < 0.15
            work.item_count = draw.choice([0, 0, 0, 2]) if depth == 0 else 0
        work.is_flaky = draw.random() < 0.15
        return work

    # --- Building ----------------------------------------------------------------------------------------------------

    def _build(self, team: Team, prefix: str, *, is_outermost: bool = False) -> Ensemble:
        """The ensemble of a team; that of an inner one is told where it stands by an input."""
        at = "" if is_outermost else "{at}"
        mate = Agent(role="Mate", goal="Help", tools=[self.look, self.ask_team], max_retry_wait=0.001)
        if team.is_managed:
            told = Task.of(f"<<do:{at}t0>>", name="told")
            return Ensemble(tasks=[told], agents=[mate], llm=self._llm, workflow="hierarchical")
        tasks: list[Task] = []
        for number, work in enumerate(team.works):
            tasks.append(self._make_task(work, f"{prefix}t{number}", f"{at}t{number}", number, tasks, is_outermost))
        agents = [each.agent for each in tasks if each.agent is not None]
        fields: dict[str, Any] = {"llm": self._llm, "workflow": team.workflow}
        if any(each.allow_delegation for each in agents):
            fields["agents"] = [mate, *agents]
        phases = sorted({each.phase for each in team.works if each.phase is not None})
        if not phases:
            return Ensemble(tasks=tasks, **fields)
        made = []
        for phase in phases:
            members = [task for task, work in zip(tasks, team.works, strict=True) if work.phase == phase]
            more: dict[str, Any] = {"after": made[-1:]}
            if phase in team.openings:
                more["when"] = {tasks[team.openings[phase]].name: {"matches": r"\["}}
            match team.rounds.get(phase):
                case "function":
                    more["review"] = {"by": self._review}
                case "task":
                    more["review"] = {"by": Task.of(f"<<do:{at}r{phase}>> APPROVE or RETRY: why", name=f"judge{phase}")}
                case "condition":
                    more |= {"until": {members[-1].name: {"matches": r"t\d+\.1/"}}, "max_rounds": 2}
            made.append(Phase.of(f"p{phase}", *members, **more))
        return Ensemble(phases=made, **fields)

    def _make_task(
        self, work: Work, place: str, told: str, number: int, before: Sequence[Task], is_outermost: bool
    ) -> Task:
        order = f"<<do:{told}>>" if not work.item_count else f"<<do:{told}/{{item}}>>"
        fields: dict[str, Any] = {
            "name": f"task{number}",
            "context": [before[each] for each in work.reads],
            "when": [{before[each].name: {"matches": r"\[" if work.is_met else "never"}} for each in work.tests],
            "memory": [work.scope] if work.scope else [],
        }
        if work.how == "ensemble":
            inner = self._teams[f"{place}/n0/"] = self._build(work.teams[0], f"{place}/n0/")
            return Task.of(order, ensemble=inner, inputs={"at": f"{told}.0/n0/"}, **fields)
        if work.how == "handler":
            return Task.of(order, handler=self._make_handler(work, place, told), **fields)
        tools: list[Any] = [self.look, self.ask_team] if work.turns else []
        for turn, uses in enumerate(work.turns):
            for k, use in enumerate(uses):
                if use.team is not None:
                    team = self._teams[f"{place}/s0.{turn}/u{k}/"] = self._build(use.team, f"{place}/s0.{turn}/u{k}/")
                    if not use.team.is_run_by_code:
                        tools.append(team.as_tool(use.kind, "Ask a team."))
        delegates = any(use.kind == "delegate" for uses in work.turns for use in uses)
        agent = Agent(role=f"Agent {number}", goal="Do", tools=tools, allow_delegation=delegates, max_retries=2)
        if work.item_count:
            fields["for_each"] = [f"i{each}" for each in range(work.item_count)]
        if work.objections:
            fields |= {"output_guardrails": self._guard, "max_guardrail_retries": work.objections}
        if work.has_fallback:
            fields["fallback"] = Agent(role="Stand-in", goal="Do")
        return Task.of(order, agent=agent, max_retry_wait=0.001, **fields)

    def _make_handler(self, work: Work, place: str, told: str) -> Any:
        for n, each in enumerate(work.teams):
            self._teams[f"{place}/n{n}/"] = self._build(each, f"{place}/n{n}/")

        async def handle(_: Any) -> str:
            self.called.append(f"{told}.0")
            teams = [(self._teams[f"{place}/n{n}/"], f"{told}.0/n{n}/") for n in range(len(work.teams))]
            return " ".join([(await team.arun({"at": at})).raw for team, at in teams])

        return handle

    async def look(self, at: str) -> str:
        """Look."""
        self.called.append(at)
        return f"seen at {at} #{next(self._numbers)}"

    async def ask_team(self, at: str) -> str:
        """Ask a team."""
        self.called.append(at)
        return (await self._teams[f"{strip(at)}/"].arun({"at": f"{at}/"})).raw

    def _guard(self, output: Any) -> GuardrailResult:
        return GuardrailResult.failure("no") if "BAD" in output.raw else GuardrailResult.success()

    def _review(self, request: Any) -> ReviewDecision:
        return ReviewDecision.retry("more") if re.search(r"\[t\d+\.0/", request.text) else ReviewDecision.approve()

    # --- Answering ---------------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """What the model says at the place that the prompt tells of."""
        system = " ".join(str(each["content"]) for each in request.messages if each["role"] == "system")
        prompt = next(str(each["content"]) for each in request.messages if each["role"] == "user")
        told = _ORDER.findall(prompt)[-1]
        said = sum(each["role"] == "assistant" for each in request.messages)
        place = self._find_round(told, prompt)
        at = f"{place}/s{int('Stand-in' in system)}.{said}"
        self.asked.append(at)
        if told.rpartition("/")[2].startswith("r"):
            return Answer(f"{'RETRY: more' if place.endswith('.0') else 'APPROVE'} [{at}] #{next(self._numbers)}")
        work = self._works[strip(told)]
        if work.is_flaky and at not in self._failed:
            self._failed.add(at)
            return Answer.status(500)
        if work.has_fallback and "/s0." in at[len(place) :] and said == len(work.turns):
            return Answer.status(400)
        text = f"[{at}] #{next(self._numbers)}"
        if "/s1." in at[len(place) :]:
            return Answer(text)
        if said < len(work.turns):
            return Answer(text, calls=[*map(self._make_call, *zip(*self._number(at, work.turns[said]), strict=True))])
        sent_back = sum(
            str(each["content"]).endswith("BAD") for each in request.messages if each["role"] == "assistant"
        )
        if work.objections:  # an agent with tools goes on with its conversation, another one begins anew
            sent_back += int(place.removesuffix(f"/{told.rpartition('/')[2]}").rpartition(".")[2])
        return Answer(f"{text} BAD" if sent_back < work.objections else text)

    @staticmethod
    def _number(at: str, uses: Sequence[Use]) -> Iterator[tuple[str, Use]]:
        for number, use in enumerate(uses):
            yield f"{at}/u{number}", use

    @staticmethod
    def _make_call(at: str, use: Use) -> tuple[str, dict[str, Any]]:
        if use.worker is not None:
            return use.kind, {"agent_role": "Mate", "task_description": f"<<do:{at}/w>>"}
        return use.kind, {"at": f"{at}/" if use.kind[-1].isdigit() else at}

    def _find_round(self, told: str, prompt: str) -> str:
        """The place with its round: that after the last one of which the prompt has a text."""
        whole, _, item = told.rpartition("/")
        if not re.fullmatch(r"i\d+", item):
            whole, item = told, ""
        if whole.endswith("w"):
            return whole
        base, tail = f"{whole}.", f"/{item}" if item else ""
        if whole.rpartition("/")[2].startswith("r"):
            rounds = [int(each) for each in re.findall(r"\[t\d+\.(\d+)/", prompt)]
            return f"{base}{max(rounds, default=0)}"
        rounds = [int(each) for each in re.findall(rf"\[{re.escape(base)}(\d+){re.escape(tail)}/", prompt)]
        return f"{base}{max(rounds, default=-1) + 1}{tail}"

    # --- The oracle --------------------------------------------------------------------------------------------------

    def depends(self, at: str, point: str) -> bool:
        """Whether what is done at a place depends on what is done at the point of a fork, or is that."""
        left, right, team, is_by_code = at.split("/"), point.split("/"), self.team, False
        for depth, (a, p) in enumerate(zip(left, right, strict=False)):
            if a == p:
                team = self._enter(team, left[: depth + 1])
                is_by_code = is_by_code or team.is_run_by_code  # nor is what the agents of that team ask
                continue
            match a[0]:
                case "t" | "r":
                    items = [path[depth + 1] for path in (left, right) if "".join(path[depth + 1 :]).startswith("i")]
                    is_sent_back_alone = strip(a) == strip(p) and team.works[int(strip(a)[1:])].objections
                    if is_sent_back_alone and len(set(items)) == 2:
                        return False
                    if is_by_code:
                        return [*map(int, a[1:].split("."))] > [*map(int, p[1:].split("."))]
                    return a in self._reach(team, p)
                case "s":
                    return [*map(int, a[1:].split("."))] > [*map(int, p[1:].split("."))]
                case "n":
                    return a > p
                case _:  # items, and calls of one reply, know nothing of each other
                    return False
        return len(left) >= len(right)

    def is_around(self, at: str, point: str) -> bool:
        """Whether a tool or handler has the point in it."""
        return point.startswith(f"{at}/")

    def _enter(self, team: Team, path: list[str]) -> Team:
        base = f"{strip('/'.join(path))}"
        last = path[-1]
        if last[0] == "n":
            return self._works[base.rpartition("/")[0]].teams[int(last[1:])]
        if last[0] == "u":
            place, _, turn = base.rpartition("/")[0].rpartition("/")
            use = self._works[place].turns[int(turn.split(".")[1])][int(last[1:])]
            return use.team or team
        return team

    def _reach(self, team: Team, point: str) -> set[str]:
        """The tasks and reviews of a team, each with its round, that know of what the point does."""
        edges: dict[str, set[str]] = defaultdict(set)
        for source, target in self._list_edges(team):
            edges[source].add(target)
        found, to_follow = {point}, [point]
        while to_follow:
            for each in edges[to_follow.pop()] - found:
                found.add(each)
                to_follow.append(each)
        return found

    @staticmethod
    def _list_later(team: Team, counts: Mapping[int, int], n: int, m: int) -> Iterator[tuple[int, int]]:
        """The rounds of one task that end before those of another one begin, where each is done after the other."""
        is_together = team.works[n].phase == team.works[m].phase and team.works[n].phase in team.rounds
        for x, y in itertools.product(range(counts[n]), range(counts[m])):
            if ((x, n) < (y, m)) if is_together else n < m:
                yield x, y

    def _list_edges(self, team: Team) -> Iterator[tuple[str, str]]:
        """Who is told what whom has made, each with its round."""
        counts = {n: 2 if work.phase in team.rounds else 1 + work.objections for n, work in enumerate(team.works)}
        for n, work in enumerate(team.works):
            yield from ((f"t{n}.{at - 1}", f"t{n}.{at}") for at in range(1, counts[n]))  # what it had said itself
            is_redone = work.phase in team.rounds
            told = {*work.reads, *work.tests}
            told |= {team.openings[work.phase]} if work.phase in team.openings else set()
            for read, at in itertools.product(told, range(counts[n])):
                is_inside = is_redone and team.works[read].phase == work.phase
                yield f"t{read}.{at if is_inside else counts[read] - 1}", f"t{n}.{at}"
            peers = [m for m, each in enumerate(team.works) if is_redone and each.phase == work.phase]
            for m, each in enumerate(team.works):
                if work.scope and each.scope == work.scope:
                    yield from ((f"t{n}.{x}", f"t{m}.{y}") for x, y in self._list_later(team, counts, n, m))
            by = team.rounds.get(-1 if work.phase is None else work.phase)
            if by == "task":
                yield from ((f"t{n}.{at}", f"r{work.phase}.{at}") for at in range(2))
            # What a condition looks at is the last task alone.
            for peer in peers if by != "condition" or n == peers[-1] else ():
                yield f"t{n}.0", f"t{peer}.1"
                yield f"r{work.phase}.0", f"t{peer}.1"


def strip(path: str) -> str:
    """A path without rounds and items, by which a work is found."""
    return "/".join(re.sub(r"^([tr]\d+)\.\d+$", r"\1", each) for each in path.split("/") if each[0] != "i")


def list_places(texts: Iterable[str]) -> list[str]:
    """The places that texts begin with, or that stand in them first."""
    return [found[1] for each in texts if (found := _PLACE.search(each)) is not None]


def find_first_round(description: str) -> str:
    """The place of a task that is told this, at its first round."""
    return f"{_ORDER.findall(description)[-1].removesuffix('/{item}')}.0"
