"""Where the rules that are tested through the public interface come from, by their numbers.

What they say stands in ``docs/contract``.
"""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "AgentEnsemble 03, domain model"
ENGINE: Final = "AgentEnsemble 04, execution engine"
ERRORS: Final = "AgentEnsemble 08, error handling"
PHASES: Final = "AgentEnsemble 19, phases"
NEXUS: Final = "nexus-ai, execution engine"
OWN: Final = "this project"

SOURCES: Final = {
    "E1": (DOMAIN,),
    "E2": (DOMAIN, OWN),
    "E3": (PHASES,),
    "E4": (DOMAIN, OWN),
    "E5": (DOMAIN, PHASES, NEXUS),
    "E6": (ENGINE, ERRORS),
    "E7": (DOMAIN, PHASES),
    "E10": (ENGINE,),
    "E11": (ENGINE, OWN),
    "E12": (ENGINE, ERRORS),
    "E13": (ENGINE, ERRORS),
    "E14": (ENGINE, ERRORS),
    "E15": (OWN,),
    "E16": (DOMAIN, OWN),
    "E17": (OWN,),
    "E18": (OWN,),
    "E20": (ENGINE,),
    "E21": (NEXUS, OWN),
    "E22": (ENGINE,),
    "E23": (DOMAIN, ENGINE),
    "E24": (ENGINE,),
    "E25": (DOMAIN, ENGINE, ERRORS),
    "E26": (PHASES,),
    "E27": (PHASES,),
    "E28": (OWN,),
    "E30": (NEXUS,),
    "E31": (NEXUS,),
    "E32": (ENGINE, NEXUS),
    "E33": (NEXUS,),
    "E34": (NEXUS,),
    "E35": (OWN,),
    "E36": (NEXUS, OWN),
    "E37": (ERRORS, PHASES),
    "E38": (NEXUS, OWN),
    "E39": (ENGINE,),
    "E40": (OWN,),
    "E41": (OWN,),
    "E42": (OWN,),
    "E43": (OWN,),
    "E44": (ENGINE, OWN),
    "E45": (PHASES, OWN),
    "E46": (OWN,),
    "E47": (OWN,),
    "E48": (OWN,),
    "E51": (OWN,),
    "E49": (ENGINE, OWN),
    "E50": (OWN,),
    "E61": (OWN,),
    "E63": (OWN,),
    "E69": (OWN,),
    "E70": (OWN,),
    "E71": (OWN,),
    "E52": (OWN,),
    "E57": (OWN,),
    "E58": (OWN,),
    "E59": (OWN,),
    "E64": (OWN,),
    "E65": (OWN,),
    "E66": (OWN,),
    "E67": (OWN,),
    "E68": (OWN,),
    "E60": (OWN,),
    "E56": (OWN,),
    "T1": (ENGINE,),
    "T2": (OWN,),
    "T3": (OWN,),
    "T6": (ENGINE,),
    "T7": (OWN,),
    "T10": (ENGINE, OWN),
    "T11": (ENGINE,),
    "T12": (OWN,),
    "T21": (OWN,),
}
