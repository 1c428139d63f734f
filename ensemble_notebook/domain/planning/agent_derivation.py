"""Agents for tasks that name none (E2): derived from the first verb of the description, without a model call."""

from __future__ import annotations

import re
from typing import Final

from ensemble_notebook.domain.definitions.agent import Agent

HANDLER_ROLE: Final = "Handler"

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
_ROLE_OF_VERB: Final = {verb: role for role, verbs in _ROLES.items() for verb in verbs.split()}
_WORD: Final = re.compile(r"[A-Za-z]+")


def derive_role(description: str) -> str:
    """Derive the role that fits the first known verb among the first words of a description, else ``"Agent"``."""
    for match in list(_WORD.finditer(description))[:4]:
        if role := _ROLE_OF_VERB.get(match[0].lower()):
            return role
    return "Agent"


def make_role_slug(role: str) -> str:
    """A role as a part of names: lower-case ASCII letters, digits and underscores; ``"task"`` where it has none."""
    return re.sub(r"[^a-z0-9]+", "_", role.lower()).strip("_") or "task"


def derive_agent(description: str) -> Agent:
    """Derive the agent of an agentless task: its goal is the description."""
    return Agent(role=derive_role(description), goal=description)
