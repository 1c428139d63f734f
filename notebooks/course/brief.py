"""The team of the first lesson: a scripted model that knows two stories, and what the exercises look for.

It writes as a model would that has read about them: a brief is made from the notes that it is given; without any, it is
what many believe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course import Expectation, named
from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel

if TYPE_CHECKING:
    import pandas as pd

STORIES = {
    ("1202", "apollo", "eagle"): {
        "describe": (
            "Minutes before the first landing on the Moon, the computer of Eagle raised alarm 1202: it had more "
            "work than time, dropped what could wait, and flew on."
        ),
        "haiku": "Alarm twelve-oh-two:  \nthe small machine drops its load  \nand flies on to land.",
        "story": (
            "On 20 July 1969, while Eagle was coming down, its computer raised alarms 1202 and 1201, several "
            "times in all. Each time it restarted within a moment and went on steering. Houston said go, and "
            "Eagle landed."
        ),
        "people": (
            "Armstrong and Aldrin reported the alarm. In Houston, Garman and Bales knew what it meant, and said "
            "go. Hamilton led the team at MIT that had written the software."
        ),
        "cause": (
            "A switch let the rendezvous radar send signals all the time. To count them took some 15% of the "
            "computer's time, so jobs were not done when the next ones came, until there was no memory left for "
            "new ones."
        ),
        "brief of story": (
            "While Eagle was coming down, its computer raised alarms 1202 and 1201, restarted each time, and went "
            "on steering until Eagle had landed."
        ),
        "brief of people": "In Houston, Garman and Bales knew what the alarms meant, and said go.",
        "brief of cause": (
            "The rendezvous radar was taking some 15% of the computer's time, so it had dropped the jobs that "
            "could wait."
        ),
        "myth": (
            "During the first landing on the Moon the computer broke down, because it was too weak for its task. "
            "Armstrong switched it off, and came down by eye alone."
        ),
        "title": "The computer that dropped the right things",
        "doubt": "Check the share of 15%: it was worked out after the flight, and sources differ by a few points.",
    },
    ("gps", "relativ", "satellite"): {
        "describe": (
            "The clocks of GPS satellites would run fast by 38 microseconds a day, as relativity says, and are "
            "made to tick slower before they are launched."
        ),
        "haiku": "Clocks high in orbit  \nrun ahead of ours below;  \nwe slow them, and steer.",
        "story": (
            "In 1977 a test satellite carried an atomic clock to the orbit of GPS. It ran fast, as had been "
            "worked out, and the clocks of later satellites were set to tick slower."
        ),
        "people": "Einstein had the theory, in 1905 and 1915. Easton and Parkinson led those who built the system.",
        "cause": (
            "Weaker gravity makes a clock up there gain 45 microseconds a day, and its speed makes it lose 7. "
            "Light goes 300 m in a microsecond, so the 38 that are left would be kilometres on a map, each day."
        ),
        "brief of story": (
            "The clock of a test satellite ran fast in 1977, as had been worked out, and later ones were set to "
            "tick slower."
        ),
        "brief of people": (
            "Einstein had the theory decades before Easton and Parkinson led those who built the system."
        ),
        "brief of cause": (
            "Weak gravity gains 45 microseconds a day and speed loses 7, and the 38 that are left would be "
            "kilometres on a map."
        ),
        "myth": "The clocks of GPS satellites are so precise that they need no correction.",
        "title": "38 microseconds a day",
        "doubt": "Check what 38 microseconds come to: much of the error would be the same for all satellites.",
    },
}
"""What is known of each topic, by words that tell it."""
KINDS = {
    "haiku": ("haiku", "poem"),
    "title": ("title", "headline"),
    "brief": ("brief", "slide", "report", "summar", "article", "paragraph", "postcard"),
    "doubt": ("doubt", "check", "wrong", "risk"),
    "people": ("who ", "people"),
    "cause": ("why", "cause", "reason"),
    "story": ("happen", "story", "when "),
    "describe": (),
}
"""What a task asks for, by words of its description; the first that fits, else the last."""
SECONDS = {"story": 0.3, "people": 0.6, "cause": 0.8, "brief": 0.5, "myth": 1.0}


def write(messages: list[Any]) -> Reply:
    """What the model says to a prompt."""
    prompt = messages[-1].content
    notes, _, asked = prompt.partition("## Expected Output")[0].rpartition("## Task\n")
    kind = next((kind for kind, words in KINDS.items() if any(word in asked.casefold() for word in words)), "describe")
    known = next((facts for words, facts in STORIES.items() if any(word in prompt.casefold() for word in words)), None)
    if known is None:
        text = "I am a script, and have heard of two things: the 1202 alarm, and GPS and relativity."
    elif kind == "brief":
        read = [known[f"brief of {each}"] for each in ("story", "people", "cause") if known[each] in notes]
        kind = "brief" if read or known["describe"] in notes else "myth"
        text = known[kind] if kind == "myth" else " ".join(read) or known["describe"]
    else:
        text = known[kind]
    return Reply(text, delay=SECONDS.get(kind, 0.2))


team = ScriptedChatModel(rules=[(lambda _: True, write)])


@named
def side_by_side(first: str, second: str) -> Expectation:
    """Pass where two tasks were at work at the same time."""

    def ran_side_by_side(run: EnsembleOutput) -> Score:
        rows = run.frames.tasks.set_index("task")
        if missing := [name for name in (first, second) if name not in rows.index]:
            return Score(value=False, reason=f"the run has no task {missing[0]}")
        early, late = sorted((first, second), key=lambda name: rows.start_ms[name])
        if rows.start_ms[late] < rows.start_ms[early] + rows.duration_ms[early]:
            return Score(value=True)
        return Score(value=False, reason=f"{late} began when {early} had ended")

    return ran_side_by_side


def names_the_dearest(rule: Callable[[pd.DataFrame], Any]) -> Expectation:
    """Pass where a function names the agent with the most tokens: of this run, and where others read or write more."""

    def names_the_agent_with_the_most_tokens(run: EnsembleOutput) -> Score:
        calls = run.frames.llm_calls
        more_read, more_written = {"Historian": 3_000, "Engineer": 4_000}, {"Engineer": 5_000}
        for column, more in (("input_tokens", {}), ("output_tokens", more_written), ("input_tokens", more_read)):
            other = calls.copy()
            other[column] += other.agent.astype(str).map(more).fillna(0).astype(int)
            other["total_tokens"] = other.input_tokens + other.output_tokens
            total = other.groupby("agent", observed=True).total_tokens.sum()
            if (said := rule(other)) != total.idxmax():
                used = ", ".join(f"{name} {count:,}" for name, count in total.items())
                return Score(value=False, reason=f"where the tokens are {used}, it says {said}")
        return Score(value=True)

    return names_the_agent_with_the_most_tokens
