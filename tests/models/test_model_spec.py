"""Texts and mappings that name a model, and what is said about those that don't."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.local_spec import LocalSpec
from ensemble_notebook.models.model_kinds import list_forms, parse_spec
from ensemble_notebook.models.model_spec import ModelSpec
from ensemble_notebook.models.openai_spec import OpenAISpec
from ensemble_notebook.models.scripted_spec import ScriptedSpec

KEY = "sk-proj-abcdefghijklmnop1234567890"


@pytest.mark.parametrize(
    "text, spec",
    [
        ("openai:gpt-4o-mini", OpenAISpec("gpt-4o-mini")),
        (" openai: gpt-4o-mini ", OpenAISpec("gpt-4o-mini")),
        ("openai:ft:gpt-4o:org::id", OpenAISpec("ft:gpt-4o:org::id")),
        ("openai:llama3:8b@http://localhost:11434/v1/", OpenAISpec("llama3:8b", "http://localhost:11434/v1")),
        ("openai:a/b@https://host/v1", OpenAISpec("a/b", "https://host/v1")),
        ("openai:@cf/meta/llama-3.1", OpenAISpec("@cf/meta/llama-3.1")),
        ("openai:@cf/meta/llama-3.1@https://host/v1", OpenAISpec("@cf/meta/llama-3.1", "https://host/v1")),
        ("openai:gemini@001@HTTP://host/v1", OpenAISpec("gemini@001", "HTTP://host/v1")),
        ({"model": "@cf/m", "base_url": "http://h/v1"}, OpenAISpec("@cf/m", "http://h/v1")),
        ({"model": "openai:@cf/m@http://h/v1"}, OpenAISpec("@cf/m", "http://h/v1")),
        ("local", LocalSpec()),
        ("local:~/weights/My Model.gguf", LocalSpec("~/weights/My Model.gguf")),
        ("scripted", ScriptedSpec()),
        ({"model": "m"}, OpenAISpec("m")),
        ({"model": "local", "temperature": 0.9, "seed": 7}, LocalSpec()),
        ({"model": "local:w.gguf", "stop": ["a", "b"]}, LocalSpec("w.gguf")),
        ({"model": "openai:gpt-4o", "api_key_env": "MY_KEY"}, OpenAISpec("gpt-4o", None, "MY_KEY")),
        ({"model": "openai:m@http://h/v1", "max_tokens": 5}, OpenAISpec("m", "http://h/v1")),
        ({"model": "local", "base_url": "http://h/v1"}, OpenAISpec("local", "http://h/v1")),
        ({"model": "llama3:8b", "base_url": "http://h/v1"}, OpenAISpec("llama3:8b", "http://h/v1")),
        ({"model": "scripted"}, ScriptedSpec()),
        ({"model": "m", "base_url": None, "api_key_env": None}, OpenAISpec("m")),
        ({"model": "m", "base_url": "http://h/v1/", "api_key_env": "MY_KEY"}, OpenAISpec("m", "http://h/v1", "MY_KEY")),
    ],
)
def test_spec_is_read(text, spec):
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    "text, hint",
    [
        ("opena:gpt-4o", "Did you mean 'openai:gpt-4o'?"),
        ("OpenAI:gpt-4o", "Did you mean 'openai:gpt-4o'?"),
        ("openai", "Did you mean 'openai:NAME'? For instance 'openai:gpt-4o-mini'."),
        ("groq", "Did you mean 'groq:NAME'? With what it calls the model, as 'anthropic:claude-sonnet-4-5' has it."),
        ("gemini", "Did you mean 'google_genai:NAME'?"),
        ("openai:", "needs the name of a model"),
        ("gpt-4o-mini", "Did you mean 'openai:gpt-4o-mini'?"),
        ("Local", "Did you mean 'local'?"),
        ("weights.gguf", "Did you mean 'local:weights.gguf'?"),
        ("local:", "local:PATH.gguf"),
        ("local:weights.bin", "local:PATH.gguf"),
        ("scripted:x", "Did you mean 'scripted'?"),
        ("ollama:llama3", "'openai:llama3@http://localhost:11434/v1'"),
        ("anthropic:", "Did you mean 'anthropic:NAME'?"),
        ("gemini:flash", "Did you mean 'google_genai:flash'?"),
        ("claude-sonnet-4-5", "Did you mean 'anthropic:claude-sonnet-4-5'?"),
        ({"model": "anthropic:claude", "seed": 1}, "takes no seed; it takes temperature, max_tokens, top_p, stop"),
        ("something", f"Write one of {list_forms()}"),
        ("openai:@cf/m@localhost:1/v1", "Did you mean 'openai:@cf/m@http://localhost:1/v1'?"),
        ("openai:@http://host/v1", "needs the name of a model"),
        ("openai:m@localhost:1/v1", "Did you mean 'openai:m@http://localhost:1/v1'?"),
        ("openai:m@ftp://host", "must begin with http:// or https://"),
        ("openai:m@http://", "must begin with http:// or https://"),
        ("openai:m@http://host:port", "must begin with http:// or https://"),
        ("openai:m@http://host/v1?x=1", "ends with its path"),
        ({"base_url": "http://h"}, "needs its name"),
        ({"model": ""}, "must be text"),
        ({"model": 3}, "must be text, got int"),
        ({"model": "m", "base_ulr": "http://h"}, "Did you mean 'base_url'?"),
        ({"model": "m", "temprature": 1}, "Did you mean 'temperature'?"),
        ({"model": "m", "temperature": "hot"}, "temperature of a model must be a number >= 0, got 'hot'"),
        ({"model": "m", "temperature": float("nan")}, "temperature of a model must be a number >= 0"),
        ({"model": "m", "max_tokens": 0}, "max_tokens of a model must be a whole number > 0"),
        ({"model": "m", "top_p": 1.5}, "top_p of a model must be a number from 0 to 1"),
        ({"model": "m", "seed": True}, "seed of a model must be a whole number"),
        ({"model": "m", "stop": []}, "stop of a model must be a text, or a list of texts"),
        ({"model": "m", "extra_body": [1]}, "extra_body of a model must be a mapping"),
        ({"model": "m", "schema_mode": "nativ"}, "must be auto, native or prompt, got 'nativ'. Did you mean 'native'?"),
        ({"model": "scripted", "seed": 1}, "The model 'scripted' is none, and takes no seed"),
        ({"model": "local", "api_key_env": "MY_KEY"}, "takes no key"),
        ({"model": "local:weights.bin"}, "local:PATH.gguf"),
        ({"model": "m", "base_url": "h:1"}, "Did you mean 'http://h:1'?"),
        ({"model": "m", "api_key_env": "NOT A NAME"}, "name of an environment variable"),
        (
            {"model": "m", "base_url": "http://h/v1", "api_key_env": "DB_PASSWORD"},
            "ends in _KEY or _TOKEN, and 'DB_PASS",
        ),
        ({"model": "anthropic:m", "api_key_env": "HOME"}, "put the key into such a variable"),
    ],
)
def test_what_names_no_model_is_answered_with_what_was_meant(text, hint):
    with pytest.raises(ValidationError) as caught:
        parse_spec(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        f"openai:{KEY}",
        f"openai:m@http://host/v1?api_key={KEY}",
        "openai:m@http://me:password@host/v1",
        {"model": "m", "base_url": "http://me:password@host/v1"},
        {"model": "m", "api_key": KEY},
        {"model": "m", "api_key_env": KEY},
        {"model": "m", "extra_body": {"deep": [KEY]}},
    ],
)
def test_key_is_refused_with_the_reason_and_not_repeated(spec):
    with pytest.raises(
        ValidationError, match=r"[Kk]eys? come from the environment only|name of an environment var"
    ) as caught:
        parse_spec(spec)
    assert KEY not in str(caught.value)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "spec, item",
    [
        ({"model": "m", "base_url": "nowhere"}, "base_url"),
        ({"model": "m", "modle": "x"}, "modle"),
        ({"model": "m", "top_p": 2}, "top_p"),
        ({"model": "local:x", "seed": 2}, "model"),
        ({}, "model"),
        ("nonsense", None),
    ],
)
def test_problem_names_its_place(spec, item):
    with pytest.raises(ValidationError) as caught:
        parse_spec(spec)
    assert [(problem.field, problem.item) for problem in caught.value.problems] == [("llm", item)]


@given(st.one_of(st.text(), st.dictionaries(st.text(), st.text() | st.none() | st.integers())))
def test_whatever_is_written_is_a_spec_or_a_validation_error(spec):
    try:
        assert isinstance(parse_spec(spec), ModelSpec)
    except ValidationError:
        return


@pytest.mark.parametrize(
    "address, told",
    [
        ("gpu:8000", "Did you mean 'OPENAI_BASE_URL=http://gpu:8000'?"),
        ("//gpu", "must begin with http:// or https://"),
        ("http://gpu:80a", "must begin with http:// or https://"),
        ("http://gpu/v1?x=1", "ends with its path"),
        ("http://somebody:letmein@gpu:80a", "'http://***@gpu:80a' in the environment variable OPENAI_BASE_URL"),
    ],
)
def test_an_address_in_a_variable_is_checked_as_one_in_a_spec(
    monkeypatch: pytest.MonkeyPatch, address: str, told: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-secret")
    with pytest.raises(ValidationError) as caught:
        OpenAISpec("m").check()
    assert told in str(caught.value)
    assert "in the environment variable OPENAI_BASE_URL" in str(caught.value)
    other = OpenAISpec("m", "http://host/v1").resolve()
    assert (other.base_url, other.key_variable) == ("http://host/v1", None)
