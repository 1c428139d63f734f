"""Functions as tools, whatever their parameters are called and however these are passed (E1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import Callbacks  # noqa: TC002 - read by LangChain
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - read by LangChain
from langchain_core.tools import tool
from pydantic import BaseModel

from ensemble_notebook import Agent, Ensemble, RunContext, ScriptedChatModel, Task, ToolUse, ValidationError
from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.engine.agent.toolbox import Toolbox

KEPT = ["config", "callbacks", "run_manager", "self", "cls", "args", "kwargs"]
PYDANTICS = ["model_config", "model_fields", "model_dump", "model_name", "schema", "json", "copy", "dict", "validate"]
OTHERS = [
    "_x",
    "__x",
    "v__args",
    "v__duplicate_kwargs",
    "tool_input",
    "runtime",
    "name",
    "title",
    "type",
    "return_direct",
]
FORMS = {
    "plain": "def work({name}: str, other: int = 3):",
    "async": "async def work({name}: str, other: int = 3):",
    "positional": "def work({name}: str, /, other: int = 3):",
    "keyword": "def work(*, {name}: str, other: int = 3):",
    "second": "def work(other: int = 3, {name}: str = ''):",
    "default": "def work({name}: str = 'none', other: int = 3):",
    "without types": "def work({name}, other=3):",
}


def make(form: str, name: str) -> Any:
    """A function of this form with a parameter of this name."""
    names: dict[str, Any] = {}
    text = FORMS[form].format(name=name)
    exec(
        f'{text}\n    """Work.\n\n    Args:\n        {name}: what to do.\n    """\n    return f"{{{name}}} {{other}}"',
        names,
    )
    return names["work"]


def run(entry: Any, arguments: dict[str, Any]) -> tuple[str, ToolSpec]:
    """What a model is told that calls a tool so, and how it sees the tool."""
    (spec,) = Toolbox([entry]).specs
    llm = ScriptedChatModel(replies=[ToolUse(spec.name, arguments), "done"])
    Ensemble(tasks=[Task.of("Work", agent=Agent(role="Clerk", goal="Work", tools=[entry], llm=llm))]).run()
    (told,) = [each.content for each in llm.calls[-1].messages if each.type == "tool"]
    return str(told), spec


@pytest.mark.parametrize("name", KEPT + PYDANTICS + OTHERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_parameter_may_have_any_name_e1(form: str, name: str) -> None:
    told, spec = run(make(form, name), {name: "tides", "other": 4})
    assert told == "tides 4"
    assert sorted(spec.parameters["properties"]) == sorted([name, "other"])
    assert spec.parameters["properties"][name]["description"] == "what to do."
    assert spec.description == "Work."
    is_required = inspect.signature(make(form, name)).parameters[name].default is inspect.Parameter.empty
    assert spec.parameters.get("required", []) == ([name] if is_required else [])


@pytest.mark.parametrize("name", KEPT + PYDANTICS + OTHERS)
def test_what_does_not_fit_is_told_by_the_own_name_e13(name: str) -> None:
    told, _ = run(make("plain", name), {name: 5})
    assert told.startswith(f"Error: the arguments of tool 'work' don't fit: {name}: Input should be a valid string")


def test_many_parameters_are_all_told_apart() -> None:
    names = [f"_{number}" for number in range(12)]
    scope: dict[str, Any] = {}
    exec(f"def work({', '.join(names)}): return [{', '.join(names)}]", scope)
    scope["work"].__doc__ = "Work with _1 and _11."
    told, spec = run(scope["work"], {name: name for name in names})
    assert told == str(names).replace("'", '"')
    assert spec.description == "Work with _1 and _11."


def collect(first: str, /, *items: int, **options: int) -> str:
    """Collect.

    Args:
        items: numbers.
        options (int): named numbers.
    """
    return f"{first} {items} {options}"


def untyped(*args, **kwargs):  # type: ignore[no-untyped-def]
    """Pass on."""
    return f"{args} {kwargs}"


@pytest.mark.parametrize(
    "function, arguments, told",
    [
        (collect, {"first": "a", "items": [1, 2], "options": {"x": 3}}, "a (1, 2) {'x': 3}"),
        (collect, {"first": "a"}, "a () {}"),
        (untyped, {"args": ["a"], "kwargs": {"b": "c"}}, "('a',) {'b': 'c'}"),
        (untyped, {}, "() {}"),
    ],
)
def test_what_takes_the_rest_is_a_list_or_an_object_e1(
    function: Callable[..., str], arguments: dict[str, Any], told: str
) -> None:
    assert run(function, arguments)[0] == told


def test_the_model_sees_the_types_of_the_rest_e1() -> None:
    properties = run(collect, {"first": "a"})[1].parameters["properties"]
    assert properties["items"]["items"] == properties["options"]["additionalProperties"] == {"type": "integer"}
    assert [properties[each]["description"] for each in ("items", "options")] == ["numbers.", "named numbers."]


def test_what_langchain_hands_to_its_own_types_stays() -> None:
    def work(query: str, config: RunnableConfig, callbacks: Callbacks = None, schema: int = 1) -> str:
        """Work."""
        return f"{query} {type(config).__name__} {callbacks is not None} {schema}"

    told, spec = run(work, {"query": "tides", "schema": 2})
    assert told == "tides dict True 2"
    assert list(spec.parameters["properties"]) == ["query", "schema"]


class Order(BaseModel):
    config: int


def test_values_are_made_of_their_types_and_the_context_is_handed_in() -> None:
    def work(schema: Order, run: RunContext, /, *, json: Annotated[int, "how many"]) -> str:
        """Work."""
        return f"{schema!r} {run.task is not None} {json}"

    told, spec = run(work, {"schema": {"config": "4"}, "json": 2})
    assert told == "Order(config=4) True 2"
    assert spec.parameters["properties"]["json"]["description"] == "how many"


class Desk:
    def work(self, config: str) -> str:
        """Work."""
        return config

    @classmethod
    def work_for_all(cls, config: str) -> str:
        """Work."""
        return config


@pytest.mark.parametrize("entry", [Desk().work, Desk.work_for_all])
def test_methods_take_them_too(entry: Any) -> None:
    assert run(entry, {"config": "tides"})[0] == "tides"


@pytest.mark.parametrize(
    "entry, fault",
    [
        (tool(make("plain", "config")), "LangChain never hands a value to its parameter 'config'. Rename it, or give"),
        (tool(make("async", "run_manager")), "LangChain never hands a value to its parameter 'run_manager'."),
        (tool(make("default", "callbacks")), "LangChain never hands a value to its parameter 'callbacks'."),
        (tool(make("positional", "query")), "LangChain never hands a value to its parameter 'query'."),
        (tool(make("plain", "_x")), "LangChain never hands a value to its parameter '_x'."),
        (tool(make("plain", "args")), "LangChain never hands a value to its parameter 'args'."),
        (tool(untyped), "LangChain never hands a value to its parameter 'args'."),
        (Desk.work, "it is a method of the class Desk; give that of an object, as in Desk(...).work"),
    ],
)
def test_a_tool_that_can_not_be_called_is_a_mistake_when_declared_e1(entry: Any, fault: str) -> None:
    agent = Agent(role="Clerk", goal="Work", tools=[entry])
    with pytest.raises(ValidationError) as caught:
        Ensemble(tasks=[Task.of("Work", agent=agent)], llm="scripted").validate()
    name = getattr(entry, "name", "work")
    assert f"Tool at index 0 ({name}) can't be shown to a model: {fault}" in str(caught.value)


@tool
def ask_langchain(query: str, config: RunnableConfig, callbacks: Callbacks = None) -> str:
    """Ask."""
    return f"{query} {type(config).__name__} {callbacks is not None}"


def test_a_tool_of_langchain_that_wants_langchains_own_is_none() -> None:
    assert run(ask_langchain, {"query": "tides"})[0] == "tides dict True"


def balance(account, run: RunContext, currency="EUR"):  # type: ignore[no-untyped-def]
    """Look a balance up.

    Args:
        account: whose.
        run: of the bank.
        currency (str): of the answer.
    """
    return f"{account} {run.task is not None} {currency}"


class Bank:
    @tool
    def balance(self, account, run: RunContext, currency="EUR"):  # type: ignore[no-untyped-def]
        """Look a balance up.

        Args:
            account: whose.
            run: of the bank.
            currency (str): of the answer.
        """
        return f"{account} {run.task is not None} {currency}"


@pytest.mark.parametrize("entry", [balance, Bank()])
def test_a_docstring_may_describe_parameters_without_a_type_and_the_context_e79(entry: Any) -> None:
    told, spec = run(entry, {"account": "Ada"})
    assert told == "Ada True EUR"
    assert {name: each["description"] for name, each in spec.parameters["properties"].items()} == {
        "account": "whose.",
        "currency": "of the answer.",
    }
