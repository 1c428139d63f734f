"""The rules that the engine promises: number, what it is about, and the documents that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DOMAIN: Final = "AgentEnsemble 03, domain model"
ENGINE: Final = "AgentEnsemble 04, execution engine"
ERRORS: Final = "AgentEnsemble 08, error handling"
PHASES: Final = "AgentEnsemble 19, phases"
NEXUS: Final = "nexus-ai, execution engine"
OWN: Final = "this project"


@dataclass(frozen=True)
class Rule:
    """One rule: its title and where it comes from."""

    title: str
    sources: tuple[str, ...]


RULES: Final = {
    "E1": Rule("An agent and what it must be", (DOMAIN,)),
    "E2": Rule("A task, with an agent, a handler, or neither", (DOMAIN, OWN)),
    "E3": Rule("A phase", (PHASES,)),
    "E4": Rule("An ensemble, and the ways to run it", (DOMAIN, OWN)),
    "E5": Rule("Rules between the objects", (DOMAIN, PHASES, NEXUS)),
    "E6": Rule("Template variables", (ENGINE, ERRORS)),
    "E7": Rule("Outputs", (DOMAIN, PHASES)),
    "E10": Rule("The agent loop", (ENGINE,)),
    "E11": Rule("Several tool calls in one turn", (ENGINE, OWN)),
    "E12": Rule("The budget of tool calls", (ENGINE, ERRORS)),
    "E13": Rule("Tools that fail, and arguments that do not fit", (ENGINE, ERRORS)),
    "E14": Rule("Models that fail, and empty replies", (ENGINE, ERRORS)),
    "E15": Rule("Where tools run", (OWN,)),
    "E16": Rule("Structured output", (DOMAIN, OWN)),
    "E17": Rule("Streaming", (OWN,)),
    "E18": Rule("Guardrails", (OWN,)),
    "E20": Rule("The sequential workflow", (ENGINE,)),
    "E21": Rule("The parallel workflow, without barriers", (NEXUS, OWN)),
    "E22": Rule("The hierarchical workflow", (ENGINE,)),
    "E23": Rule("Delegation", (DOMAIN, ENGINE)),
    "E24": Rule("Delegation policies", (ENGINE,)),
    "E25": Rule("Hierarchical constraints", (DOMAIN, ENGINE, ERRORS)),
    "E26": Rule("Phases", (PHASES,)),
    "E27": Rule("Leaving early", (PHASES,)),
    "E28": Rule("Review of phases", (OWN,)),
    "E30": Rule("Retry of model requests", (NEXUS,)),
    "E31": Rule("Fallback agents", (NEXUS,)),
    "E32": Rule("Error strategies", (ENGINE, NEXUS)),
    "E33": Rule("Conditions", (NEXUS,)),
    "E34": Rule("How a run ended", (NEXUS,)),
    "E35": Rule("Interrupt", (OWN,)),
    "E36": Rule("Budgets by reservation", (NEXUS, OWN)),
    "E37": Rule("Rate limits", (ERRORS, PHASES)),
    "E38": Rule("Timeouts", (NEXUS, OWN)),
    "E39": Rule("Logging", (ENGINE,)),
    "E40": Rule("The local model", (OWN,)),
    "E41": Rule("The scripted model", (OWN,)),
    "E42": Rule("Record and replay", (OWN,)),
    "E43": Rule("Silence", (OWN,)),
    "E44": Rule("Memory", (ENGINE, OWN)),
    "E45": Rule("Review of tasks", (PHASES, OWN)),
    "T1": Rule("Everything is recorded", (ENGINE,)),
    "T2": Rule("Operations and attempts; sums over leaves", (OWN,)),
    "T3": Rule("Unknown is not zero", (OWN,)),
    "T6": Rule("Capture modes", (ENGINE,)),
    "T7": Rule("Secrets are masked", (OWN,)),
    "T10": Rule("Cost", (ENGINE, OWN)),
    "T11": Rule("The JSON form of a trace", (ENGINE,)),
    "T12": Rule("Loading a trace", (OWN,)),
}
