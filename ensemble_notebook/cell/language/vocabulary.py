"""The words of the cell language and what each takes and means (C2). Knows neither definitions nor texts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Kind(Enum):
    """What a key takes. The value is how a message names it."""

    TEXT = "a text"
    CHOICE = "one word"
    FLAG = "true or false"
    WHOLE = "a whole number"
    SHARE = "a share, such as 0.8"
    SECONDS = "a number of seconds"
    PRICE = "a price per token"
    AMOUNT = "an amount of money, as a number"
    AGENT = "the name of an agent"
    WORKER = "the name of an agent, or the keys of one"
    NAMES = "a list of names"
    OBJECT = "the name of a function or object of this notebook"
    OBJECTS = "a list of names of this notebook's functions and objects"
    FUNCTIONS = "the name of a function of this notebook, or a list of them"
    MODEL = "a model: local, openai:NAME, or a variable that holds a chat model"
    SHAPE = "a class of this notebook, fields such as {title: str, score: int}, or a JSON schema"
    AGENTS = "a mapping of names to agents"
    TASKS = "a list or a mapping of tasks"
    PHASES = "a mapping of phases to their tasks"
    INPUTS = "a mapping of names to values"
    COST = "a mapping with input_rate and output_rate"
    RATE = "a rate such as 60/min, or a mapping with requests and period"
    BUDGET = "limits such as $0.50 or 20k tokens, or a mapping of them"
    WHEN = "a mapping of a task to what it must have said"
    REVIEW = "before, during, after, or a mapping with timing"
    PHASE_REVIEW = "a reviewer, or a mapping with by and max_retries"
    REVIEWER = "a function of this notebook, a task of the phase, or what is to be looked at"
    MEMORIES = "the name of a memory, or a list of names"
    STORE = "true, the path of a file, or a store of this notebook"
    EXPORTER = "the path of a file or folder, or an exporter of this notebook"
    CONSTRAINTS = "a mapping of constraints"
    ROLES = "a list of agents"
    CAPS = "a mapping of agents to numbers"
    STAGES = "a list of lists of agents"


Words = Mapping[str, tuple[Kind, str]]

AGENT_WORDS: Final[Words] = {
    "role": (Kind.TEXT, "who this is; the key of the agent says it where this is left out"),
    "goal": (Kind.TEXT, "what this agent is after"),
    "llm": (Kind.MODEL, "the model of this agent, in place of the cell's"),
    "background": (Kind.TEXT, "what this agent knows about itself"),
    "tools": (Kind.OBJECTS, "what this agent may call"),
    "allow_delegation": (Kind.FLAG, "whether it may hand work to the other agents"),
    "verbose": (Kind.FLAG, "log prompts and replies"),
    "max_iterations": (Kind.WHOLE, "tool calls for one task"),
    "response_format": (Kind.TEXT, "instructions about the form of replies"),
    "rate_limit": (Kind.RATE, "how often its model may be asked, e.g. 60/min"),
    "max_retries": (Kind.WHOLE, "tries again after a passing failure of the model"),
    "llm_timeout": (Kind.SECONDS, "for one model request; null is no limit"),
}
TASK_WORDS: Final[Words] = {
    "description": (Kind.TEXT, "what is to be done; {name} is filled in"),
    "expected_output": (Kind.TEXT, "what the result looks like; {name} is filled in"),
    "agent": (Kind.AGENT, "who does it"),
    "context": (Kind.NAMES, "the tasks whose outputs it reads"),
    "name": (Kind.TEXT, "what others call it"),
    "handler": (Kind.OBJECT, "a function that does it in place of an agent"),
    "llm": (Kind.MODEL, "the model of this task, in place of its agent's"),
    "tools": (Kind.OBJECTS, "what its agent may call for this task as well"),
    "timeout": (Kind.SECONDS, "for the whole task; null is no limit"),
    "output_type": (Kind.SHAPE, "what the reply must fit, e.g. {title: str, score: int}"),
    "max_output_retries": (Kind.WHOLE, "corrections asked for until the reply fits"),
    "when": (Kind.WHEN, "run it only if, e.g. {triage: {contains: urgent}}; of a list, any may hold"),
    "fallback": (Kind.WORKER, "the agent who takes over when the first one has finally failed"),
    "input_guardrails": (Kind.FUNCTIONS, "functions that may stop it before it starts"),
    "output_guardrails": (Kind.FUNCTIONS, "functions that may refuse its output"),
    "review": (Kind.REVIEW, "when a person is asked: before, during or after it"),
    "memory": (Kind.MEMORIES, "what it reads before and writes after"),
    "rate_limit": (Kind.RATE, "how often its model may be asked, e.g. 60/min"),
}
PHASE_WORDS: Final[Words] = {
    "name": (Kind.TEXT, "what the phase is called"),
    "tasks": (Kind.TASKS, "a list is a chain, a mapping a graph"),
    "workflow": (Kind.CHOICE, "sequential or parallel"),
    "after": (Kind.NAMES, "the phases that come before"),
    "when": (Kind.WHEN, "run it only if, e.g. {triage: {contains: urgent}}; of a list, any may hold"),
    "review": (Kind.PHASE_REVIEW, "who looks at its outputs, and may send it back"),
}
CELL_WORDS: Final[Words] = {
    "tasks": (Kind.TASKS, "a list is a chain, a mapping a graph"),
    "phases": (Kind.PHASES, "workstreams of tasks, in place of tasks"),
    "agents": (Kind.AGENTS, "who works on the tasks"),
    "llm": (Kind.MODEL, "the model of everyone who has no own"),
    "workflow": (Kind.CHOICE, "sequential, parallel or hierarchical"),
    "error_strategy": (Kind.CHOICE, "fail_fast, continue_on_error or partial"),
    "manager_llm": (Kind.MODEL, "the model of the manager"),
    "manager_max_iterations": (Kind.WHOLE, "delegations that the manager may make"),
    "manager_prompt": (Kind.OBJECT, "an object that writes the manager's prompts"),
    "hierarchical_constraints": (Kind.CONSTRAINTS, "what the manager may and must do"),
    "delegation_policies": (Kind.OBJECTS, "who is asked about every delegation"),
    "max_delegation_depth": (Kind.WHOLE, "how far a delegation may go on to another one"),
    "listeners": (Kind.OBJECTS, "what hears every event"),
    "capture_mode": (Kind.CHOICE, "off, standard or full"),
    "trace_exporter": (Kind.EXPORTER, "where the trace of every run goes, e.g. traces/"),
    "rate_limit": (Kind.RATE, "how often models may be asked, e.g. 60/min"),
    "budget": (Kind.BUDGET, "what a run may spend, e.g. $0.50 or 20k tokens"),
    "max_concurrency": (Kind.WHOLE, "how many tasks run at once"),
    "memory": (Kind.STORE, "where tasks remember: true, a file such as notes.db, or a store"),
    "review_handler": (Kind.OBJECT, "a function that answers in place of a person"),
    "review_policy": (Kind.CHOICE, "never, after_every_task or after_last_task"),
    "cost": (Kind.COST, "own prices, in place of the public ones"),
    "inputs": (Kind.INPUTS, "values for {name}"),
    "verbose": (Kind.FLAG, "log prompts and replies of everyone"),
    "name": (Kind.TEXT, "what this ensemble is called"),
}
COST_WORDS: Final[Words] = {
    "input_rate": (Kind.PRICE, "for one token that is read"),
    "output_rate": (Kind.PRICE, "for one token that is written"),
    "currency": (Kind.TEXT, "of both rates"),
}
RATE_WORDS: Final[Words] = {
    "requests": (Kind.WHOLE, "how many in one period"),
    "period": (Kind.SECONDS, "how long it is"),
    "wait_timeout": (Kind.SECONDS, "how long a request waits for its turn"),
}
BUDGET_WORDS: Final[Words] = {
    "max_cost": (Kind.AMOUNT, "in the currency of the prices"),
    "max_tokens": (Kind.WHOLE, "read and written, together"),
    "max_llm_calls": (Kind.WHOLE, "requests to models"),
    "warn_at": (Kind.SHARE, "the share of a limit at which a warning shows"),
    "allow_unknown_cost": (Kind.FLAG, "use models without a known price, uncounted"),
}
CONDITION_WORDS: Final[Words] = {
    "equals": (Kind.TEXT, "the whole output"),
    "contains": (Kind.TEXT, "a part of it"),
    "matches": (Kind.TEXT, "a regular expression that is found in it"),
    "predicate": (Kind.OBJECT, "a function that says yes or no to it"),
    "default": (Kind.FLAG, "when no other condition on this task held"),
}
REVIEW_WORDS: Final[Words] = {
    "timing": (Kind.CHOICE, "before, during or after"),
    "timeout": (Kind.SECONDS, "that a person has; null waits for ever"),
    "on_timeout": (Kind.CHOICE, "exit_early, continue or fail"),
}
PHASE_REVIEW_WORDS: Final[Words] = {
    "by": (Kind.REVIEWER, "who looks at the phase"),
    "max_retries": (Kind.WHOLE, "how often it may be sent back"),
}
CONSTRAINT_WORDS: Final[Words] = {
    "required_workers": (Kind.ROLES, "who must have done something"),
    "allowed_workers": (Kind.ROLES, "nobody else may be asked"),
    "max_calls_per_worker": (Kind.CAPS, "how often each may be asked"),
    "global_max_delegations": (Kind.WHOLE, "how often all together may be asked; 0 is no limit"),
    "required_stages": (Kind.STAGES, "everyone of a stage is done before the next begins"),
}
MODEL_WORDS: Final[Words] = {
    "model": (Kind.TEXT, "its name on the server"),
    "base_url": (Kind.TEXT, "where an OpenAI-compatible server listens"),
    "api_key_env": (Kind.TEXT, "the environment variable that holds the key"),
}
