"""The tool of the demo's report, which a fork of it really calls: what the counters of a town's buses say."""

from __future__ import annotations

from typing import Final

_RIDES: Final = {
    "night bus": {"weekday": 21, "Friday": 168, "Saturday": 203},
    "last regular bus": {"weekday": 64, "Friday": 71, "Saturday": 58},
}


def count_rides(line: str, day: str) -> str:
    """Look up how many people rode a bus line of the town in an average night of last year.

    Args:
        line: "night bus" or "last regular bus".
        day: "weekday", "Friday" or "Saturday".
    """
    rides = _RIDES.get(line, {}).get(day)
    if rides is None:
        return f"No counter for {line!r} on a {day!r}. Lines: {', '.join(_RIDES)}. Days: weekday, Friday, Saturday."
    return f"{rides} rides in an average {day} night ({line}, counted by the doors, last year)"
