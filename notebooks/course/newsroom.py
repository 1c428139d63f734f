"""The newsroom of the lesson on managers: scripted managers who decide, and workers who know one lighthouse."""

from __future__ import annotations

import re
from typing import Any

from course import Expectation, named
from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel, ToolUse

NOW = "Off Plymouth a white light flashes twice every ten seconds, and nobody lives in the tower any more."
PAST = "Four towers have stood on the Eddystone rocks. The first was lit in 1698, the present one in 1882."
CARD = "Greetings from Eddystone!"
SAID_OF = {
    NOW: "Two flashes every ten seconds, and nobody at home.",
    PAST: "The first tower was lit in 1698, and this is the fourth.",
}
"""What the writer makes of each fact."""
GUESS = "Greetings from the lighthouse! It is as old as the sea, and its keeper waves to you from the stairs."
KNOWN = {
    "You are Reporter": Reply(NOW, delay=0.3),
    "You are Historian": Reply(PAST, delay=0.5),
    "You are Intern": Reply("I have heard that there is a ghost.", delay=0.2),
    "You are Gossip": Reply("I have heard that roses are in love with the keeper.", delay=0.3),
    "You are Botanist": Reply("Thrift: it grows on rocks by the sea, in pink cushions.", delay=0.3),
}

LIGHT = ("Reporter", "Describe the lighthouse as it is today.")
OLD = ("Historian", "Tell when towers were built there.")
THINKS_FOR = 0.2


def ask(*wishes: tuple[str, str], tool: str = "delegate_task") -> Reply:
    """A decision of an agent, after a moment of thought: calls of the tool that delegates."""
    calls = [ToolUse(tool, {"agent_role": who, "task_description": what}) for who, what in wishes]
    return Reply(calls=calls, delay=THINKS_FOR)


def delivered(messages: list[Any]) -> list[str]:
    """What the workers have handed in by now, and no refusals."""
    return [each.content for each in messages if each.type == "tool" and not is_no(each)]


def is_no(message: Any) -> bool:
    """Whether this is the refusal of a wish, or says that there were enough of them."""
    return bool(message.type == "tool" and message.content.startswith(("Error", "STOP")))


def is_card(text: str) -> bool:
    """Whether this is what the writer makes of facts."""
    return text.startswith(CARD)


def count_turns(messages: list[Any]) -> int:
    """How often this agent has decided by now."""
    return sum(each.type == "ai" for each in messages)


def write_up(messages: list[Any]) -> Reply:
    """Gives the writer what the others have found."""
    return ask(("Writer", f"Make a postcard of this: {' '.join(dict.fromkeys(delivered(messages)))}"))


def hand_in(messages: list[Any]) -> Reply:
    """The last word: what was handed in last."""
    return Reply((delivered(messages) or ["There is nothing to print."])[-1], delay=THINKS_FOR)


def write(messages: list[Any]) -> Reply:
    """The writer makes a postcard of the facts that it has, or of thin air."""
    said = [said for fact, said in SAID_OF.items() if fact in messages[-1].content]
    return Reply(" ".join([CARD, *said]) if said else GUESS, delay=0.3)


def edit(messages: list[Any]) -> Reply:
    """An editor who does it right: facts, then the writer, then the end. What is refused is left out."""
    done = delivered(messages)
    if not done and not is_no(messages[-1]):
        return ask(LIGHT, OLD)
    return hand_in(messages) if is_no(messages[-1]) or is_card(done[-1]) else write_up(messages)


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
    turn = count_turns(messages)
    return wishes[turn] if turn < len(wishes) else hand_in(messages)


def go_home(messages: list[Any]) -> Reply:
    """An editor who stops when the first fact is in."""
    return Reply("That will do.", delay=THINKS_FOR) if count_turns(messages) else ask(LIGHT)


def write_first(messages: list[Any]) -> Reply:
    """Has the writer write first; where that is refused, it asks for what the refusal says is still to come."""
    done = delivered(messages)
    if is_no(messages[-1]):
        missing = re.findall(r"'(\w+)'", messages[-1].content.partition("still to come:")[2])
        known = dict((LIGHT, OLD))
        return ask(*((who, known.get(who, "Do your part.")) for who in missing)) if missing else hand_in(messages)
    if not done:
        return ask(("Writer", "Write a postcard now, facts can follow."))
    return write_up(messages) if done[-1] in SAID_OF else hand_in(messages)


def dig(messages: list[Any]) -> Reply:
    """Asks the reporter again and again, up to five times or until that is refused; then the writer, once."""
    done = delivered(messages)
    asked_for = [call["args"]["agent_role"] for each in messages if each.type == "ai" for call in each.tool_calls]
    if "Writer" in asked_for or messages[-1].content.startswith("STOP"):
        return hand_in(messages)
    return write_up(messages) if is_no(messages[-1]) or len(done) >= 5 else ask(LIGHT)


def rhyme(messages: list[Any]) -> Reply:
    """A poet who asks two others, and puts into its verse what comes back."""
    wishes = [("Gossip", "Tell me something about roses."), ("Botanist", "Which flower grows on rocks by the sea?")]
    turn = count_turns(messages)
    if turn < len(wishes):
        return ask(wishes[turn], tool="delegate")
    return Reply("\n".join(["Salt, and a light, and this:", *delivered(messages)]), delay=THINKS_FOR)


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
        wishes = wishes[wishes.delegate_to == role]
        granted = int((wishes.status == "ok").sum())
        if granted or wishes.empty:
            return Score(value=0 < granted <= at_most, reason=_TIMES.get(granted, f"{granted} times"))
        return Score(value=False, reason=f"each time it was refused: {wishes.error_message.iloc[-1]}")

    return was_asked


@named
def refused(role: str) -> Expectation:
    """Pass where somebody was asked for, and that was refused with a reason."""

    def was_refused_with_a_reason(run: EnsembleOutput) -> Score:
        wishes = run.frames.delegations
        wishes = wishes[wishes.delegate_to == role]
        noes = wishes[wishes.status != "ok"]
        if noes.empty:
            return Score(value=False, reason="it never was" if len(wishes) else "nobody asked for it")
        reason = noes.error_message.iloc[0]
        is_meant = noes.error_type.iloc[0] == "DelegationRefused" and "gave no reason" not in reason
        return Score(value=is_meant, reason=reason)

    return was_refused_with_a_reason


_TIMES = {0: "never", 1: "once"}
