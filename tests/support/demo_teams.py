"""The teams of the demos: their cells, and what their models say, and how fast."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook.models.langchain.scripted_model import Fail, Reply, ScriptedChatModel, ToolUse
from tests.support.demo_letters import KINDLY, TERSELY, is_right, make_letters, sort_letter

LARGE: Final = "{model: large, cost: {input_rate: 0.0000025, output_rate: 0.00001}}"
SMALL: Final = "{model: small, cost: {input_rate: 0.00000015, output_rate: 0.0000006}}"
"""Models as the cells name them. They are scripted, and cost what a large and a small model of today do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTeam:
    """A cell, and the script of its models.

    Attributes:
        cell: its body, in which models are `LARGE` and `SMALL`.
        rules: of the script, as of `ScriptedChatModel.match`.
        map: arguments of `map` for a team that works for many rows, and `variants`, under which it does.
    """

    cell: str
    rules: Mapping[Any, Any] = field(default_factory=dict)
    map: Mapping[str, Any] = field(default_factory=dict)

    def make_names(self) -> dict[str, Any]:
        """What the cell names."""
        return {name: ScriptedChatModel.match(self.rules, model_name=f"scripted-{name}") for name in ("large", "small")}

    def write_cell(self) -> str:
        """The cell as it ships: models are an echo, until somebody names others."""
        return re.sub("model: (large|small)", "model: scripted", self.cell)


def say(text: str, words_per_s: float = 15.0) -> Reply:
    """A reply at the pace at which a model speaks."""
    return Reply(text, delay=max(0.6, len(text.split()) / words_per_s))


def call(delay: float, *calls: ToolUse, text: str = "") -> Reply:
    """A reply that asks for tools."""
    return Reply(text, calls=calls, delay=delay)


# --- A report with a loop and a refused budget ------------------------------------------------------------------------

_DRAFTS: Final[Sequence[Reply]] = (
    say(
        "**Keep the night bus.** Most people in Lindhaven want it: 151 of 212 letters are for it. On Saturdays it is "
        "full, and it brings people home who would otherwise drive. It also brings home those who work at night and "
        "have no other way. Osterby ended its bus, and two clinics lost their night staff. The cost is moderate for "
        "what the town gets. We recommend that the council keeps all seven nights and looks at the figures again in "
        "two years."
    ),
    say(
        "**Keep Friday and Saturday; on weekdays, run a call bus.** 78% of all rides are in those two nights, at €1.53 "
        "a ride on Saturday. A weekday ride costs the town €14.76, and few take it, but those few work at night and "
        "have no other way: 19 letters are theirs. Valmere's call bus comes for whoever has booked by 22:00, and costs "
        "a third of a bus that runs empty. Two nights are €32,000 a year; five nights on call are about €27,000. "
        "Together €59,000 in place of €113,000, and nobody walks home from the hospital."
    ),
)
_CRITIQUES: Final[Sequence[Reply]] = (
    say(
        '{"verdict": "revise", "why": "\\"The cost is moderate\\" is no figure. Say what a ride costs on a Saturday '
        "and on a weekday, and what each choice costs a year. And letters are no vote: say who has no other way home, "
        'not who wrote most."}'
    ),
    say(
        '{"verdict": "approve", "why": "It says what is decided, what it costs, what it saves, and who is not left '
        'behind. A council can vote on that."}'
    ),
)
_FINAL: Final = say(
    "## Two nights for all, five nights for those who call\n\n**Decision.** The night bus runs on Friday and Saturday. "
    "On the other five nights a call bus comes for whoever has booked by 22:00.\n\n**Why.** Two nights carry 78% of "
    "all rides. On weekdays an empty bus costs €14.76 a ride, but those who take it clean, nurse and bake, and have no "
    "other way home.\n\n| | a year |\n|---|---|\n| today, seven nights | €113,000 |\n| Friday and Saturday | €32,000 "
    "|\n| five nights on call | €27,000 |\n| **saved** | **€54,000** |\n\n**Known from** the door counters, 212 "
    "letters, and Valmere, which has run a call bus since 2021.",
    words_per_s=20,
)


def _write(messages: Sequence[Any]) -> Reply:
    """What the writer says: it knows by what it is asked how far the report is."""
    asked = str(messages[-1].content)
    if "goes to the council" in asked:
        return _FINAL
    return _DRAFTS["is no figure" in asked]


def _criticise(messages: Sequence[Any]) -> Reply:
    return _CRITIQUES["Valmere's call bus" in str(messages[-1].content)]


_REPORT: Final = DemoTeam(
    cell=f"""\
name: night bus report
inputs: {{question: Should Lindhaven keep its night bus?}}
budget: $0.015
agents:
  Analyst:
    goal: Find the numbers that decide
    tools: [ensemble_notebook.notebook.magics.demo_tools.count_rides]
    llm: {SMALL}
  Listener:
    goal: Say what people want, in their own words
    llm: {SMALL}
  Scout:
    goal: Find out how other towns have decided
    max_retries: 2
    llm: {SMALL}
  Writer:
    goal: Write what a council can decide on
    background: You write for people who have two minutes and must answer for the money.
    llm: {LARGE}
  Critic:
    goal: Find what a council would stumble over
    llm: {LARGE}
phases:
  research:
    tasks:
      numbers: {{description: "Which figures decide this? {{question}}", agent: Analyst}}
      voices: {{description: "What do those say whom it concerns? {{question}}", agent: Listener}}
      elsewhere: {{description: "How have other towns decided? {{question}}", agent: Scout}}
  write:
    after: [research]
    tasks:
      draft:
        description: "Draft the report: {{question}}"
        expected_output: At most 120 words, the recommendation first
        agent: Writer
        context: [numbers, voices, elsewhere]
      critique:
        description: Could a council decide on this draft?
        agent: Critic
        context: [draft]
        output_type: {{verdict: approve | revise, why: str}}
    until: {{critique: {{field: verdict, equals: approve}}}}
    max_rounds: 3
  publish:
    after: [write]
    tasks:
      report:
        description: Write the report as it goes to the council
        expected_output: Markdown with a headline, the decision and its price
        agent: Writer
        context: [draft]
      translation:
        description: Translate the report into German, French and Turkish
        agent: Writer
        context: [report]
""",
    rules={
        "You are Analyst": [
            call(
                1.1,
                ToolUse("count_rides", {"line": "night bus", "day": "weekday"}),
                ToolUse("count_rides", {"line": "night bus", "day": "Saturday"}),
                text="Weekdays and weekends may be two different buses. I look at both.",
            ),
            call(0.9, ToolUse("count_rides", {"line": "night bus", "day": "Friday"})),
            say(
                "- **203** rides on a Saturday night, **168** on a Friday, but **21** on a weekday: 78% of a week's "
                "rides are in two nights.\n- The bus costs **€310** a night, whoever rides it: €1.53 a ride on "
                "Saturday, **€14.76** on a weekday.\n- All seven nights are €113,000 a year; Friday and Saturday alone "
                "are **€32,000**."
            ),
        ],
        "You are Listener": [
            say(
                'I read 212 letters.\n\n> "I clean at the hospital until half past one. Without the bus I walk an '
                'hour." (nurse\'s aide, Hill Road)\n\n> "On Saturdays it is full, and nobody drives drunk." '
                '(barkeeper, Harbour Lane)\n\n> "It stops below my bedroom, empty, five nights a week." (teacher, '
                "Mill Street)\n\nFor it: 151. Against it: 34. Only at weekends: 27. Those who need it **on weekdays "
                "are few, and have no other way home**: 19 of the letters are theirs."
            )
        ],
        "You are Scout": [
            Fail(429, retry_after=2.0, delay=0.8),
            say(
                "Three towns of our size:\n\n- **Osterby** ended its night bus: 6% more taxis, and two clinics lost "
                "their night staff.\n- **Valmere** runs it at weekends, and on weekdays a *call bus*: it comes when "
                "somebody has booked by 22:00. It costs a third.\n- **Tarn** kept all seven nights, and raised the "
                "fare to €4; riders fell by half."
            ),
        ],
        "You are Writer": _write,
        "You are Critic": _criticise,
    },
)


# --- A manager with workers -------------------------------------------------------------------------------------------


def _delegate(role: str, task: str) -> ToolUse:
    return ToolUse("delegate_task", {"agent_role": role, "task_description": task})


_STORY: Final = (
    "Since 1953, the harbour clock of Lindhaven has stood at seven minutes past three. It isn't broken. Hanna Brandt "
    "winds it every Saturday, as her father did, and lets go of the pendulum before it can swing.\n\nIn the night of "
    "31 January the dike gave way at seven past three, and the water stopped the clock. When it was mended in spring, "
    "her father asked the families on Mill Street whether it should go again. Eleven doors, eleven times no. *They "
    "wanted one thing in town that remembered,* she says.\n\nSo it is right twice a day, and once a year the whole "
    "town comes to look."
)

_CLOCK: Final = DemoTeam(
    cell=f"""\
name: the stopped clock
workflow: hierarchical
manager_llm: {LARGE}
agents:
  Reporter:
    goal: Find those who know, and let them speak
    llm: {SMALL}
  Historian:
    goal: Say what is written, and where
    llm: {SMALL}
  Checker:
    goal: Doubt one fact at a time
    llm: {SMALL}
  Writer:
    goal: Tell it so that people read to the end
    llm: {LARGE}
constraints:
  required_stages: [[Reporter, Historian], [Writer]]
tasks:
  - Find out why the harbour clock of Lindhaven stands at seven minutes past three
  - Write the story for Saturday's page
""",
    rules={
        "You are Manager": [
            call(
                2.0,
                _delegate("Writer", "Write a story about the stopped harbour clock."),
                text="Let me begin with the story.",
            ),
            call(
                2.6,
                _delegate("Reporter", "Who looks after the harbour clock? Ask why it stands still."),
                _delegate(
                    "Historian", "What do the town's papers say of the clock, and of the night in which it stopped?"
                ),
                text="Right: first the facts. Two people can look at the same time.",
            ),
            call(
                2.6,
                _delegate(
                    "Checker", "The keeper says that the dike broke at 3:07. The log says 'about three'. Which is it?"
                ),
                text="The two fit, but for one minute. That minute is the story, so it has to be right.",
            ),
            call(
                2.2,
                _delegate(
                    "Writer",
                    "Write it in 120 words: the keeper winds it each Saturday and stops it; the dike broke at 3:07; "
                    "eleven families said no. End on the town.",
                ),
                text="Now it can be written.",
            ),
            say(f"### Seven minutes past three\n\n{_STORY}", words_per_s=22),
        ],
        "You are Reporter": [
            say(
                'I found **Hanna Brandt**, 71, who winds it every Saturday, as her father did. "Of course it works. I '
                'wind it, and I hold the pendulum." Why? "It stopped when the dike broke. In spring my father went '
                "from door to door on Mill Street and asked whether it should go again. Eleven families had lost "
                'somebody. Eleven times no."'
            )
        ],
        "You are Historian": [
            say(
                "The harbour master's log for the night of **31 January 1953**: \"About three the dike gave way at "
                "Mill Street. Water in the tower.\" The council's minutes of 4 May: the clock is mended for 84 crowns. "
                'Four weeks later one line: "The clock is not to go, *by wish of the neighbours*."'
            )
        ],
        "You are Checker": [
            say(
                "**3:07 holds.** The telephone exchange logged the first call for help at 3:09 from 14 Mill Street, "
                'two minutes after the lines there shook. The log was written in the morning, from memory: "about '
                'three" does not speak against it.'
            )
        ],
        "You are Writer": [say(_STORY)],
    },
)


# --- A map that ends when the verdict is clear ------------------------------------------------------------------------

_LETTERS: Final = DemoTeam(
    cell=f"""\
name: letters
llm: {LARGE}
agents:
  Clerk: {{goal: Send each letter to the office that it is for}}
tasks:
  sort:
    description: |-
      Which office is this letter for?

      {{letter}}
    agent: Clerk
    output_type: {{office: berths | fees | noise | lost}}
""",
    rules={"You are Clerk": sort_letter},
    map={
        "variants": {"kindly": {"task.sort.description": KINDLY}, "tersely": {"task.sort.description": TERSELY}},
        "rows": make_letters(),
        "score": {"right": is_right},
        "until_clear": 0.05,
        "seed": 2,
        "concurrency": 8,
    },
)

TEAMS: Final = {"report": _REPORT, "manager": _CLOCK, "map": _LETTERS}
