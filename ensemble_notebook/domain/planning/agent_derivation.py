"""Derives agents for tasks that name none (E2), from the first verb of the description and without a model call."""

from __future__ import annotations

import functools
import re
from typing import Final

from ensemble_notebook.domain.definitions.agent import Agent

HANDLER_ROLE: Final = "Handler"
ENSEMBLE_ROLE: Final = "Ensemble"

_ROLES: Final = {
    "Researcher": "research find search gather collect investigate explore discover look survey list",
    "Writer": "write draft compose author describe tell explain document blog name",
    "Analyst": "analyse analyze compare evaluate assess examine measure study interpret rank",
    "Editor": "edit revise rewrite polish proofread improve shorten correct",
    "Summarizer": "summarise summarize condense digest distil distill recap",
    "Reviewer": "review critique check verify validate audit judge",
    "Planner": "plan schedule outline organise organize prioritise prioritize",
    "Designer": "design sketch draw layout prototype",
    "Developer": "code implement program build develop refactor debug fix",
    "Tester": "test try benchmark",
    "Translator": "translate localise localize",
    "Extractor": "extract parse classify label tag categorise categorize",
    "Calculator": "calculate compute count sum estimate",
    "Advisor": "recommend suggest advise propose decide choose answer",
}
_GOALS: Final = {
    "Researcher": "Find facts that are relevant, and can be relied on.",
    "Writer": "Write texts that are clear, and fit those who read them.",
    "Analyst": "Find out what the facts mean, and say how sure that is.",
    "Editor": "Make texts better without changing what they say.",
    "Summarizer": "Say in few words what matters, and leave nothing out that does.",
    "Reviewer": "Judge work fairly, and say exactly what is wrong with it.",
    "Planner": "Make plans that can be carried out, step by step.",
    "Designer": "Design what is simple to use, and does what it is for.",
    "Developer": "Write code that is correct, and easy to read.",
    "Tester": "Find out what works and what does not, and show how.",
    "Translator": "Translate faithfully, into natural language.",
    "Extractor": "Take out exactly what was asked for, as it stands in the source.",
    "Calculator": "Compute exactly, and check the result.",
    "Advisor": "Give advice that can be followed, with its reasons.",
    "Agent": "Do the task well.",
}
_ROLE_OF_VERB: Final = {verb: role for role, verbs in _ROLES.items() for verb in verbs.split()}
_WORD: Final = re.compile(r"[A-Za-z]+")


def derive_role(description: str) -> str:
    """Derive the role that fits the first known verb among the first words of a description, else ``"Agent"``."""
    for match in list(_WORD.finditer(description))[:4]:
        if role := _ROLE_OF_VERB.get(match[0].lower()):
            return role
    return "Agent"


@functools.lru_cache(maxsize=1024)  # most tasks share a few roles
def make_role_slug(role: str) -> str:
    """A role as part of names: lower-case ASCII letters, digits and underscores; ``"task"`` if nothing remains."""
    return re.sub(r"[^a-z0-9]+", "_", role.lower()).strip("_") or "task"


def derive_agent(description: str) -> Agent:
    """Derive the agent of an agentless task. Its goal is that of its role: the user prompt has the task's text."""
    return _make_agent(derive_role(description))


@functools.cache  # one for each role: agents are immutable, and a cell may have thousands of tasks
def _make_agent(role: str) -> Agent:
    return Agent(role=role, goal=_GOALS[role])
