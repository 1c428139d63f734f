"""The rows of the demo's map: letters to a harbour town, the office of each, and how two prompts do with them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.models.langchain.scripted_model import Reply

COUNT: Final = 300
KINDLY: Final = (
    "You are so good at this! Could you please read the letter below with care, and tell us, as kindly as you can, "
    "which office might help its writer best?\n\n{letter}"
)
TERSELY: Final = "Which office is this letter for?\n\n{letter}"
_RIGHT: Final = {"kindly": 0.69, "tersely": 0.83}
"""How often the model is right when it is asked so."""

# What is written, the office that it is for, and the one that it could be taken for.
_LETTERS: Final = (
    (
        "Is there room for the {ship}, 9 m, from {day} to Sunday? We would come in with the evening tide.",
        "berths",
        "fees",
    ),
    (
        "My neighbour's mast hits mine whenever it blows from the west. Can the {ship} lie somewhere else?",
        "berths",
        "noise",
    ),
    ("The {ship} has been sold. To whom does our place at the east pier go now?", "berths", "fees"),
    ("We are {number} boats, and would like to lie side by side for the regatta in {month}.", "berths", "noise"),
    ("You charged me {number} euros for {month}, but the {ship} was on land by then.", "fees", "berths"),
    ("Do children pay the visitors' tax? We are five, and stay until {day}.", "fees", "berths"),
    ("I paid for the winter twice, on {day} and again today. Please send {number} euros back.", "fees", "lost"),
    ("Why is water from the pier dearer than last {month}? I filled one tank on the {ship}.", "fees", "noise"),
    ("The halyards of the {ship} beat all night. My children can't sleep.", "noise", "berths"),
    ("Since {day}, somebody has been sanding a hull at six in the morning, below our windows.", "noise", "berths"),
    ("The bar at the quay played until two. That is the {number}th time since {month}.", "noise", "fees"),
    ("Is it allowed to run an engine at the berth for two hours? The {ship} does, each {day}.", "noise", "berths"),
    ("I left a blue jacket in the washroom on {day}, with a key in its pocket.", "lost", "berths"),
    ("We found a dinghy adrift, with {number} painted on it, and tied it to your steps.", "lost", "berths"),
    ("My daughter's scooter was taken off the {ship} last night. Has anybody brought it to you?", "lost", "noise"),
    ("Somebody paid my bill by mistake, {number} euros, and I don't know whom to give them to.", "lost", "fees"),
)
_SHIPS: Final = (
    "Marta",
    "Seeschwalbe",
    "Nordlys",
    "Ondine",
    "Bluebell",
    "Kittiwake",
    "Zephyr",
    "Hanne",
    "Fulmar",
    "Aurora",
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = ("March", "April", "May", "June", "July", "August", "September")


def make_letters() -> list[dict[str, str]]:
    """The rows: `letter`, and the `office` that it is for. The same each time."""
    chance = random.Random(3)
    made: dict[str, str] = {}
    while len(made) < COUNT:
        text, office, _ = chance.choice(_LETTERS)
        ship, day, month = chance.choice(_SHIPS), chance.choice(_DAYS), chance.choice(_MONTHS)
        made[text.format(ship=ship, day=day, month=month, number=chance.randint(3, 96))] = office
    return [{"letter": letter, "office": office} for letter, office in made.items()]


_OFFICES: Final = {row["letter"]: row["office"] for row in make_letters()}
_OTHERS: Final = {office: [other for _, each, other in _LETTERS if each == office] for _, office, _ in _LETTERS}


def sort_letter(messages: Sequence[Any]) -> Reply:
    """What the model says: of one letter under one prompt, the same each time."""
    asked = str(messages[1].content)
    letter = next(each for each in _OFFICES if each in asked)
    way = "kindly" if "as kindly as you can" in asked else "tersely"
    chance = random.Random(f"{way} {letter}")
    office = _OFFICES[letter]
    if chance.random() > _RIGHT[way]:
        office = chance.choice(_OTHERS[office])
    is_first, is_chatty = len(messages) == 2, way == "kindly" and chance.random() < 0.05
    delay = 0.3 + 0.8 * chance.random() ** 2
    if is_first and is_chatty:
        return Reply(
            f"What a lovely letter! I should think that the office for {office} would be glad to help.", delay=delay
        )
    return Reply(f'{{"office": "{office}"}}', delay=delay)


def is_right(output: Any, inputs: Any) -> bool:
    """Whether the letter goes to the office that it is for."""
    return bool(output.parsed_output["office"] == inputs["office"])
