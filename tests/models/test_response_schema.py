"""Schemas as models behind the OpenAI protocol take them (E16)."""

import asyncio
import dataclasses
import json
from typing import Literal

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_openai import ChatOpenAI
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field, TypeAdapter

from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.models.openai.chat_openai import bind_schema, has_schema_support
from ensemble_notebook.models.openai.request_fields import make_response_format
from tests.support.openai_server import MODEL

SEARCH = ToolSpec(name="search", description="Look it up.", parameters={"type": "object", "properties": {}})


class Spice(BaseModel):
    name: str
    grams: float | None


class Dish(BaseModel):
    """What is cooked."""

    title: str = Field(description="On the menu.")
    kind: Literal["meat", "fish"]
    spices: list[Spice]


class Loose(BaseModel):
    title: str
    note: str = ""


def test_schema_whose_fields_are_all_required_is_strict_and_closed():
    made = make_response_format(Dish.model_json_schema())
    assert made["type"] == "json_schema"
    assert made["json_schema"]["name"] == "Dish"
    assert made["json_schema"]["strict"] is True
    # The openai package closes schemas in the same way.
    assert made["json_schema"]["schema"] == to_strict_json_schema(Dish)


@pytest.mark.parametrize(
    "schema",
    [
        Loose.model_json_schema(),
        TypeAdapter(dict[str, int]).json_schema() | {"title": "Counts"},
        {"title": "Any", "type": "object"},
        {"title": "Open", "type": "object", "properties": {"a": {}}, "required": ["a"]},
        {"title": "List", "type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {"title": "Odd", "type": "object", "properties": {"a": {"type": "string", "if": {}}}, "required": ["a"]},
        {
            "title": "More",
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": True,
        },
        {
            "title": "Noted",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A", "description": "x"}},
            "required": ["a"],
            "$defs": {"A": {"type": "string"}},
        },
        {"title": "Deep", "type": "object", "properties": {"a": Loose.model_json_schema()}, "required": ["a"]},
        {"title": "Either", "anyOf": [Spice.model_json_schema()]},
    ],
    ids=lambda schema: schema["title"],
)
def test_schema_that_strict_mode_would_refuse_is_sent_as_it_is(schema):
    made = make_response_format(schema)["json_schema"]
    assert (made["strict"], made["schema"]) == (False, schema)


def test_name_has_the_form_that_is_asked_for():
    made = make_response_format({"title": "Gericht für 4 " + "x" * 90, "type": "object"})
    assert made["json_schema"]["name"] == ("Gericht_f_r_4_" + "x" * 90)[:64]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"model": "gpt-4o-mini"}, True),
        ({"model": "gpt-5"}, True),
        ({"model": "gpt-3.5-turbo"}, False),
        ({"model": "gpt-nobody-knows"}, True),
        ({"model": "gpt-4o-mini", "base_url": "http://localhost:8000/v1"}, True),
        ({"model": "qwen3", "base_url": "https://notopenai.com/v1"}, False),
        ({"model": "gpt-4o-mini", "base_url": "https://eu.api.openai.com/v1"}, True),
    ],
)
def test_models_of_openai_that_are_known_to_take_schemas_do(settings, expected):
    assert has_schema_support(ChatOpenAI(api_key="none", **settings)) is expected


def test_port_says_whether_its_model_takes_schemas(source, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-not-used")
    llms = ["openai:gpt-4o-mini", f"openai:qwen3@{server.url}", FakeListChatModel(responses=["a"]), "scripted"]
    ports = [asyncio.run(source.prepare(llm, print)) for llm in llms]
    assert [port.has_schema_support for port in ports] == [True, False, False, False]


@pytest.mark.parametrize("on_token", [None, [].append], ids=["plain", "streamed"])
@pytest.mark.parametrize("tools", [(), (SEARCH,)], ids=["bare", "tools"])
@pytest.mark.parametrize("kind", ["spec", "object"])
def test_schema_is_sent_in_every_request_beside_tools_that_are_not_strict(server, source, kind, tools, on_token):
    llm = f"openai:{MODEL}@{server.url}"
    if kind == "object":
        llm = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", extra_body={"top_k": 5})

    async def run():
        port = dataclasses.replace(await source.prepare(llm, print), has_schema_support=True)
        await port.open("s", "u", tools, Dish.model_json_schema()).reply(on_token)

    asyncio.run(run())
    body = server.requests[0].body
    assert body["response_format"] == make_response_format(Dish.model_json_schema())
    assert ("tools" in body, body.get("top_k")) == (bool(tools), 5 if kind == "object" else None)


def test_model_that_takes_no_schema_is_not_sent_one(server, source):
    async def run():
        port = await source.prepare(f"openai:{MODEL}@{server.url}", print)
        await port.open("s", "u", (), Dish.model_json_schema()).reply()

    asyncio.run(run())
    assert "response_format" not in server.requests[0].body


class Choice(BaseModel):
    fruit: Literal["apple", "pear"]
    is_ripe: bool


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize("on_token", [None, [].append], ids=["plain", "streamed"])
def test_local_model_is_held_to_a_schema(source, on_token):
    async def run():
        port = await source.prepare("local", print)
        assert port.has_schema_support
        return await port.open("You tell tales.", "Tell one.", (), Choice.model_json_schema()).reply(on_token)

    assert Choice.model_validate(json.loads(asyncio.run(run()).text))


@pytest.mark.parametrize(
    "options, name", [({}, "extra_body"), ({"tools": [{"type": "web_search"}]}, "response_format")]
)
def test_schema_is_said_in_the_words_of_the_api_that_will_be_called(options, name):
    bound = bind_schema(ChatOpenAI(model="gpt-5", api_key="none"), Dish.model_json_schema(), options)
    assert list(bound.kwargs) == [name]
