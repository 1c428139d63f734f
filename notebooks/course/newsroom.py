"""The newsroom of the lesson on managers: scripted managers who decide, and workers who know one lighthouse."""

from __future__ import annotations

from typing import Any

from course import Expectation, named
from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel, ToolUse

NOW = "Off Plymouth a white light flashes twice every ten seconds, and nobody lives in the tower any more."
PAST = "Four towers have stood on the Eddystone rocks. The first was lit in 1698, the present one in 1882."
POSTCARD = (
    "Greetings from Eddystone! Two flashes every ten seconds, from the fourth tower on these rocks since 1698, and "
    "nobody at home."
)
GUESS = "Greetings from the lighthouse! It is as old as the sea, and its keeper waves to you from the stairs."
KNOWN = {
    "You are Reporter": Reply(NOW, delay=0.5),
    "You are Historian": Reply(PAST, delay=0.7),
    "You are Intern": Reply("I have heard that there is a ghost.", delay=0.3),
    "You are Gossip": Reply("I have heard that roses are in love with the keeper.", delay=0.3),
    "You are Botanist": Reply("Thrift: it grows on rocks by the sea, in pink cushions.", delay=0.4),
}

LIGHT = ("Reporter", "Describe the lighthouse as it is today.")
OLD = ("Historian", "Tell when towers were built there.")


def ask(*wishes: tuple[str, str]) -> Reply:
    """A decision of a manager, after a moment of thought: calls of its one tool."""
    calls = [ToolUse("delegate_task", {"agent_role": who, "task_description": what}) for who, what in wishes]
    return Reply(calls=calls, delay=0.3)


def delivered(messages: list[Any]) -> list[str]:
    """What the workers have handed in by now; what was refused begins with "Error"."""
    return [each.content for each in messages if each.type == "tool" and not each.content.startswith("Error")]


def was_refused(messages: list[Any]) -> bool:
    """Whether the last wish was refused."""
    return messages[-1].type == "tool" and messages[-1].content.startswith("Error")


def write_up(messages: list[Any]) -> Reply:
    """Gives the writer what the others have found."""
    return ask(("Writer", f"Make a postcard of this: {' '.join(dict.fromkeys(delivered(messages)))}"))


def hand_in(messages: list[Any]) -> Reply:
    """The last word: what was handed in last."""
    return Reply((delivered(messages) or ["There is nothing to print."])[-1], delay=0.3)


def write(messages: list[Any]) -> Reply:
    """The writer makes a postcard of facts where it has some, and of thin air where it has none."""
    has_facts = NOW in messages[-1].content or PAST in messages[-1].content
    return Reply(POSTCARD if has_facts else GUESS, delay=0.4)


def edit(messages: list[Any]) -> Reply:
    """An editor who does it right: facts, then the writer, then the end."""
    done = delivered(messages)
    if not done:
        return ask(LIGHT, OLD)
    return hand_in(messages) if POSTCARD in done else write_up(messages)


def try_all(messages: list[Any]) -> Reply:
    """An editor who tries what is forbidden, and does it right in between."""
    wishes = [
        ask(("Writer", "Write it now, facts can follow.")),
        ask(("Intern", "Then you do it.")),
        ask(LIGHT, OLD),
        ask(("Reporter", "And what does its keeper eat?")),
        write_up(messages),
        ask(("Historian", "One more detail, please.")),
    ]
    turn = sum(each.type == "ai" for each in messages)
    return wishes[turn] if turn < len(wishes) else hand_in(messages)


def go_home(messages: list[Any]) -> Reply:
    """An editor who stops when the first fact is in."""
    return Reply("That will do.", delay=0.3) if delivered(messages) else ask(LIGHT)


def write_first(messages: list[Any]) -> Reply:
    """Has the writer write first; only where that is refused does it ask for facts."""
    done = delivered(messages)
    if not done:
        return ask(LIGHT, OLD) if was_refused(messages) else ask(("Writer", "Write a postcard now, facts can follow."))
    return write_up(messages) if NOW in done and POSTCARD not in done else hand_in(messages)


def dig(messages: list[Any]) -> Reply:
    """Asks the reporter again and again, up to six times or until that is refused; then the writer."""
    done = delivered(messages)
    if POSTCARD in done:
        return hand_in(messages)
    return write_up(messages) if was_refused(messages) or len(done) >= 6 else ask(LIGHT)


def rhyme(messages: list[Any]) -> Reply:
    """A poet who asks two others, and puts into its verse what comes back."""
    wishes = [("Gossip", "Tell me something about roses."), ("Botanist", "Which flower grows on rocks by the sea?")]
    turn = sum(each.type == "ai" for each in messages)
    if turn < len(wishes):
        who, what = wishes[turn]
        return Reply(calls=[ToolUse("delegate", {"agent_role": who, "task_description": what})], delay=0.3)
    return Reply("\n".join(["Salt, and a light, and this:", *delivered(messages)]), delay=0.3)


press = ScriptedChatModel.match({**KNOWN, "You are Writer": write}, model_name="press")
editor = ScriptedChatModel(default=edit, model_name="editor")
hasty = ScriptedChatModel(default=try_all, model_name="hasty editor")
lazy = ScriptedChatModel(default=go_home, model_name="lazy editor")
bold = ScriptedChatModel(default=write_first, model_name="bold editor")
curious = ScriptedChatModel(default=dig, model_name="curious editor")
poet = ScriptedChatModel(default=rhyme, model_name="poet")


@named
def asked(role: str, *, at_most: int) -> Expectation:
    """Pass where an agent was given work, and no more often than that; what was refused is no work."""

    def was_asked(run: EnsembleOutput) -> Score:
        wishes = run.frames.delegations
        granted = int(((wishes.delegate_to == role) & (wishes.status == "ok")).sum())
        return Score(value=0 < granted <= at_most, reason=f"{granted} times")

    return was_asked


@named
def refused(role: str) -> Expectation:
    """Pass where somebody was asked for, and the request was refused with a reason."""

    def was_refused_with_a_reason(run: EnsembleOutput) -> Score:
        wishes = run.frames.delegations
        wishes = wishes[wishes.delegate_to == role].fillna({"reason": "it was granted"})
        if wishes.empty:
            return Score(value=False, reason="nobody asked for it")
        return Score(value=wishes.status.iloc[-1] == "error", reason=wishes.reason.iloc[-1])

    return was_refused_with_a_reason
