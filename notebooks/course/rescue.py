"""The mountain rescue desk of the last lesson: its scripted models, its forecast, its messages, what checks look for.

The desk writes as a model would: it takes its words from what it is given, and minds how it is asked to write. The
sorter knows what anybody knows; what this house does otherwise it knows where its prompt says so. With a third of the
messages it is as good as undecided, so that every change of its prompt draws its answers to them anew.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course import Expectation, named
from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel, ToolUse

FOLDER = tempfile.TemporaryDirectory(prefix="rescue-", ignore_cleanup_errors=True)


def new_store() -> str:
    """A file for the runs of this lesson alone, which goes with the kernel."""
    return str(Path(tempfile.mkdtemp(dir=FOLDER.name), "runs.db"))


# --- The forecast: a service outside, which says another thing later --------------------------------------------------

BOARD = Path(FOLDER.name, "forecast.txt")


def set_forecast(text: str) -> None:
    """What the weather service says from now on."""
    BOARD.write_text(text, encoding="utf-8")


def forecast(place: str) -> str:
    """The forecast of the weather service, as of now."""
    return f"{place}: {BOARD.read_text(encoding='utf-8')}"


# --- The desk ---------------------------------------------------------------------------------------------------------

PLANS = {
    "storm|thunder|lightning|gale": "Stay where you are: a storm is coming. Two of us walk up to you at first light.",
    "snow|ice|avalanche": "Stay where you are: there will be snow. Two of us walk up to you at first light.",
    "rain|fog|cloud": "Walk down now by the forest track, and stay together. Two of us come to meet you.",
    "": "Walk down slowly by the forest track, for three hours. It stays dry until you are there.",
}
"""What is decided, by words of the notes."""
FLIGHT = "The helicopter is coming. Raise both arms when you see it: that says that you need help."
FIRST = ("Thank you for calling.", "Good that you called us.", "We have your message.")
PHONE = (
    "Switch the phone off, keep it warm, and switch it on again at each full hour.",
    "Save the phone.",
    "Call each hour.",
)
LAST = ("We stay at the desk until you are down.", "We know where you are.", "You have done all that is right so far.")
WAYS = {
    r"\b(one|single|1) sentence\b": slice(1, 2),
    r"\b(two|2) sentences\b": slice(1, 3),
    r"\b(short|brief|text message|sms|characters|few words)": slice(1, -1),
}
"""Which of its sentences a letter has, by how it is asked for."""
LETTERS = Path(FOLDER.name, "letters.txt")
"""One dot each. A file, since reuse compares what code reaches, and the luck of a model is no part of that."""


def understand(message: str) -> str:
    """Who is where, and what has happened."""
    place = re.search(r"\b(?:at|on|under|near) ((?:the )?[A-Z][\w']*(?: [A-Z][\w']*)?)", message)
    return f"Where: {place[1] if place else 'not said'}. What: {message}"


def write_letter(plan: str, asked: str, draw: int) -> str:
    """The letter to those who called, in the way that is asked for; another one at each draw."""
    said = FLIGHT if "helicopter" in plan.casefold() else plan or "Tell us where you are, please."
    first, phone, last = (lines[draw % len(lines)] for lines in (FIRST, PHONE, LAST))
    sentences = [first, *re.findall(r"[^.!?]+[.!?]?", said), phone, last]
    part = next((part for words, part in WAYS.items() if re.search(words, asked)), slice(None))
    lines = [each.strip() for each in sentences[part]]
    if re.search(r"\b(calm|friendly|kind|warm|gentle)", asked):
        lines.insert(0, "Please stay calm.")
    if re.search(r"\b(steps|list|numbered|bullets?|lines)\b", asked):
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
    return " ".join(lines)


def work(messages: Sequence[Any]) -> Reply | ToolUse:
    """What the desk says, of each task of its team."""
    prompt = next(str(each.content) for each in messages if each.type == "human")
    notes, _, task = prompt.partition("## Expected Output")[0].rpartition("## Task\n")
    kind = task.casefold()
    if "message:" in kind:
        return Reply(understand(task.partition(":")[2].strip()), delay=0.3)
    if "forecast" in kind or "weather" in kind:
        if results := [str(each.content) for each in messages if each.type == "tool"]:
            return Reply(f"{results[-1]}.", delay=0.2)
        place = re.search(r"Where: ([^.]+)\.", notes)
        return ToolUse("forecast", {"place": place[1] if place else "Grey Peak"})
    if "decide" in kind:
        return Reply(next(plan for words, plan in PLANS.items() if re.search(words, notes.casefold())), delay=0.4)
    asked = f"{messages[0].content} {task}".casefold()
    plan = notes.rpartition("### ")[2].partition("\n")[2].replace("---", "").strip()
    with LETTERS.open("a+", encoding="utf-8") as file:
        file.write(".")
        draw = file.tell() - 1
    return Reply(write_letter(plan, asked, draw), delay=0.3)


desk = ScriptedChatModel(default=work, model_name="desk")

# --- The sorter, and models that rewrite its prompt -------------------------------------------------------------------

CALL_OUT, ADVISE = "call out", "advise"


@dataclass(frozen=True)
class Kind:
    """A kind of message: what this house does, what anybody would do, words of it, words of rules for it, its texts."""

    here: str
    anybody: str
    words: str
    rule_words: str
    text: str


KINDS = {
    "animal": Kind(
        ADVISE,
        CALL_OUT,
        "sheep|dog|goat|calf|cow|on a ledge",
        "animal|sheep|dog|goat|calf|cow|cattle|pet|livestock|farmer|beast",
        "{beast} is stuck on a ledge {place} since {hour}.",
    ),
    "dark": Kind(
        CALL_OUT,
        ADVISE,
        "dark|lamp|night",
        "dark|night|lamp|torch|light",
        "It gets dark {place}, and {number} of us have no lamp. We left at {hour}.",
    ),
    "overdue": Kind(
        CALL_OUT,
        ADVISE,
        "wanted to be back|overdue|nobody answers",
        "overdue|late|not back|missing|answer",
        "{who} wanted to be back at {hour}, {place}. Nobody answers.",
    ),
    "hurt": Kind(
        CALL_OUT,
        CALL_OUT,
        "can't walk|broken|twisted|cut|hurt|bleed|injur|fallen",
        "hurt|injur|broken|bleed|can't walk|cannot walk",
        "{who} has {harm} {place} and can't walk any further.",
    ),
    "question": Kind(ADVISE, ADVISE, "", "question|ask", "{ask} We would start {place} at {hour}."),
}
WORDS = {
    "who": ("My brother", "My wife", "Our guide", "A friend", "My son", "An older man", "A climber", "My sister"),
    "harm": ("broken a leg", "twisted a knee", "cut a hand badly", "hurt the back"),
    "place": ("at Grey Peak", "near the Tarn", "on the East Ridge", "under the Chimney", "at Fox Pass"),
    "ask": ("Is the hut open in May?", "Is the path clear?", "How long is the way down?", "Do we need crampons?"),
    "hour": ("two", "three", "four", "five", "six"),
    "number": ("two", "three", "four"),
    "beast": ("A sheep", "Our dog", "A goat", "A calf"),
}
ORDER = ("hurt", "question", "overdue", "hurt", "dark", "question", "animal")


def make_messages(count: int, seed: int) -> list[dict[str, str]]:
    """Messages, each another one, with what the house does."""
    chance, made = random.Random(seed), dict[str, str]()
    while len(made) < count:
        kind = KINDS[ORDER[len(made) % len(ORDER)]]
        made.setdefault(kind.text.format(**{name: chance.choice(words) for name, words in WORDS.items()}), kind.here)
    return [{"message": text, "expected": here} for text, here in made.items()]


messages = make_messages(120, seed=3)
unseen = [each for each in make_messages(240, seed=8) if each not in messages][:60]


def find_kind(message: str) -> str:
    """The kind of a message, also of one that somebody else has written."""
    said = message.casefold()
    return next(name for name, kind in KINDS.items() if re.search(kind.words, said))


def follow(rules: str, words: str) -> str | None:
    """What the rules say of messages of a kind; None where they say nothing."""
    for sentence in re.split(r"[.;\n]+", rules.casefold()):
        if re.search(rf"\b({words})", sentence) and (found := re.search(r"call out|advise", sentence)):
            return found[0]
    return None


def sort(given: Sequence[Any]) -> str:
    """What the sorter says: `call out` or `advise`."""
    prompt = str(given[-1].content).partition("## Expected Output")[0].rpartition("## Task\n")[2]
    rules, _, message = prompt.rpartition("Message:")
    message = message.strip().strip('"')
    if seen := re.search(rf'"{re.escape(message)}"[^"]*?(call out|advise)', rules):
        return seen[1]
    kind = KINDS[find_kind(message)]
    own = re.sub(r'"[^"]*"', "", rules)
    told = follow(own, kind.rule_words) or follow(own, "always|everything|every message|all messages|in any case")
    if told is not None:
        return told
    if random.Random(f"undecided {message}").random() > 1 / 3:
        return kind.anybody
    is_right = random.Random(f"{rules} {message}").random() < 0.6
    return kind.here if is_right else ADVISE if kind.here == CALL_OUT else CALL_OUT


sorter = ScriptedChatModel(default=sort, model_name="sorter")
RULES = {
    "overdue": "Somebody who is overdue, or not back and without an answer: call out.",
    "dark": "People in the dark without a lamp: call out, even if nobody is hurt.",
}
STYLE = (
    "You are an expert with thirty years at this desk.",
    "Think step by step before you answer.",
    "Read the message twice.",
    "Take a deep breath.",
    "This matters: lives may depend on it.",
    "Be precise, and be sure.",
    "Answer as the best of your colleagues would.",
    "Weigh all that is said.",
    "Do not guess.",
    "Stay calm and objective.",
)


def read_request(given: Sequence[Any]) -> tuple[str, list[tuple[str, str]]]:
    """The text that is to be rewritten; and the messages that are shown, each with passed or not passed."""
    asked = str(given[-1].content)
    _, old, _, shown, *_ = asked.split("```")
    return old.strip(), re.findall(r"(?s)# message\s+(.+?)\n.*?: (passed|not passed)", shown)


def put_in(old: str, line: str) -> str:
    """The text with one more line above the message."""
    head, _, tail = old.rpartition("Message:")
    return f"```\n{head.rstrip()}\n{line}\nMessage:{tail}\n```"


def edit(given: Sequence[Any]) -> str:
    """A rule for what went wrong. Never one by which nobody goes out: it is a careful model."""
    old, rows = read_request(given)
    kinds = [find_kind(message) for message, verdict in rows if verdict == "not passed"]
    missing = [rule for kind in kinds if (rule := RULES.get(kind)) and rule not in old]
    return f"This house goes out sooner than the text says.\n{put_in(old, missing[0])}" if missing else polish(given)


def polish(given: Sequence[Any]) -> str:
    """What prompts are full of, and what helps nobody."""
    old, _ = read_request(given)
    new = [each for each in STYLE if each not in old] or ["Thank you."]
    return f"This is clearer.\n{put_in(old, random.Random(str(given[-1].content)).choice(new))}"


editor = ScriptedChatModel(default=edit, model_name="editor")
polisher = ScriptedChatModel(default=polish, model_name="polisher")

# --- What the checks look for -----------------------------------------------------------------------------------------


@named
def was_kept(task: str) -> Expectation:
    """Pass where a task was taken from the earlier run."""

    def kept(run: EnsembleOutput) -> Score:
        found = next((each for each in run.task_outputs if each.name == task), None)
        is_kept = found is not None and found.reused
        return Score(is_kept, None if is_kept else f"{task} was done again")

    return kept


@named
def was_asked(task: str) -> Expectation:
    """Pass where a model was asked for the output of a task, and nobody gave it."""

    def asked(run: EnsembleOutput) -> Score:
        calls = run.frames.llm_calls
        is_asked = bool((calls.output_tokens[calls.task == task] > 0).any())
        return Score(is_asked, None if is_asked else f"no model wrote the output of {task}")

    return asked


@named
def asks_each_time(task: str) -> Expectation:
    """Pass where a run with reuse asks for this task, though nothing has changed."""

    def asks(run: EnsembleOutput) -> Score:
        again = run.ensemble.run(reuse=True)
        is_reused = next((each.reused for each in again.task_outputs if each.name == task), True)
        return Score(not is_reused, f"run once more with --reuse, {task} is old" if is_reused else None)

    return asks


@named
def right_on_new(expected: str, *, at_least: float) -> Expectation:
    """Pass where the prompt is right on messages that nobody has seen, of those that should come to this."""

    def is_right(run: EnsembleOutput) -> Score:
        rows = [each for each in unseen if each["expected"] == expected and find_kind(each["message"]) != "question"]
        said = run.ensemble.map(rows).frame.raw
        wrong = [each["message"] for each, raw in zip(rows, said, strict=True) if raw != expected]
        share = 1 - len(wrong) / len(rows)
        told = f"right on {share:.0%} of {len(rows)} new messages" + (f"; wrong on {wrong[0]!r}" if wrong else "")
        return Score(share >= at_least, told)

    return is_right
