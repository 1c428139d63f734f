"""Our own specs beside ``ChatOpenAI`` as it is: the same is sent and understood, and callbacks see all of it."""

import asyncio
import contextvars
import dataclasses
from urllib.parse import urlsplit

import aiohttp
import pytest
import yarl
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tracers.context import register_configure_hook
from langchain_openai import ChatOpenAI

from ensemble_notebook.domain.seams.chat_port import ToolSpec
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.chat_completions import make_settings
from ensemble_notebook.models.openai.endpoint import find_completions_url
from ensemble_notebook.models.openai.request_fields import make_response_format
from ensemble_notebook.models.openai_spec import check_url
from tests.support.openai_server import MODEL, Answer

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SEARCH = ToolSpec(name="search", description="Look it up.", parameters=PARAMETERS)
TOOL = {"type": "function", "function": {"name": "search", "description": "Look it up.", "parameters": PARAMETERS}}
SCHEMA = {"title": "Dish", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ASKED = Answer("Looking.", calls=[("call_7", "search", {"q": "é"}), ("call_8", "search", {"q": "b"})])
MESSAGES = [SystemMessage("You are a cook."), HumanMessage('Cook a "steak" für 2.\n\U0001f969')]


async def ours(source, url, *, is_streamed=False, tools=(), schema=None):
    """Ask, answer all tool calls, ask again."""
    port = dataclasses.replace(
        await source.prepare(f"openai:{MODEL}@{url}", print), has_schema_support=schema is not None
    )
    conversation = port.open(MESSAGES[0].text, MESSAGES[1].text, tools, schema)
    replies = []
    for _ in range(2):
        replies.append(await conversation.reply([].append if is_streamed else None))
        for call in replies[-1].tool_calls:
            conversation.add_tool_result(call, "found")
    return replies


async def bare(url, *, is_streamed=False, tools=(), schema=None):
    """The same by hand."""
    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", max_retries=0, stream_usage=True)
    options = {"response_format": make_response_format(schema)} if schema else {}
    bound = model.bind(tools=[TOOL] * len(tools), **options) if tools else model.bind(**options)
    messages, replies = list(MESSAGES), []
    for _ in range(2):
        if is_streamed:
            chunks = [chunk async for chunk in bound.astream(messages)]
            reply = sum(chunks[1:], chunks[0])
        else:
            reply = await bound.ainvoke(messages)
        replies.append(reply)
        messages.append(reply)
        messages += [ToolMessage("found", tool_call_id=call["id"], name=call["name"]) for call in reply.tool_calls]
    await model.root_async_client.close()
    return replies


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("options", [{}, {"tools": (SEARCH,)}, {"schema": SCHEMA}], ids=["bare", "tools", "schema"])
def test_same_json_is_sent_and_the_same_is_understood(server, source, options, is_streamed):
    first = ASKED if "tools" in options else Answer("Medium rare.")
    script = [first, Answer('{"name": "Steak"}', usage=(30, 9), cached=4, reasoning=3)]
    server.script(*script, *script)
    mine = asyncio.run(ours(source, server.url, is_streamed=is_streamed, **options))
    theirs = asyncio.run(bare(server.url, is_streamed=is_streamed, **options))
    sent = [request.body for request in server.requests]
    for body in sent:
        # Not said where a schema is asked for, and false in any case.
        assert body.pop("stream", False) is is_streamed
    assert sent[:2] == sent[2:]
    for reply, message in zip(mine, theirs, strict=True):
        assert reply.text == message.text
        assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
            (call["id"], call["name"], call["args"]) for call in message.tool_calls
        ]
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (
            message.usage_metadata["input_tokens"],
            message.usage_metadata["output_tokens"],
        )
        assert reply.finish_reason == message.response_metadata["finish_reason"]


def test_schema_of_a_reply_is_asked_for_before_one_that_the_spec_says(server, source):
    said = {"response_format": {"type": "json_object"}, "top_k": 3}

    async def run():
        spec = {"model": MODEL, "base_url": server.url, "schema_mode": "native", "extra_body": said}
        await (await source.prepare(spec, print)).open("s", "u", (), SCHEMA).reply()

    asyncio.run(run())
    (body,) = (request.body for request in server.requests)
    assert (body["response_format"]["type"], body["top_k"]) == ("json_schema", 3)


ACCOUNT = {
    "API_KEY": "a-key-of-the-env",
    "ADMIN_KEY": "an-admin-key",
    "ORG_ID": "org-7",
    "ORGANIZATION": "org-8",
    "PROJECT_ID": "proj-7",
    "CUSTOM_HEADERS": "X-Gateway: a-key-of-the-gateway",
}


@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "heard"])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("named", [None, "https://api.openai.com/v1", "http://127.0.0.1:9/v1"])
def test_nothing_of_the_account_at_openai_goes_to_a_host_that_only_the_spec_names(
    server, source, monkeypatch, request, named, streamed, is_heard
):
    if is_heard:
        request.getfixturevalue("seen")
    for name, value in {**ACCOUNT, "BASE_URL": named or ""}.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)
    asyncio.run(ours(source, server.url, is_streamed=streamed))
    sent = server.requests[-1]
    told = str(dict(sent.headers)).casefold()
    assert sent.headers["Authorization"] == "Bearer none"
    assert not [value for value in (*ACCOUNT.values(), "gateway", "org-7", "proj-7") if value.casefold() in told]


def test_organization_may_stand_in_the_older_variable(server, source, monkeypatch):
    monkeypatch.setenv("OPENAI_ORGANIZATION", "org-8")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    asyncio.run(ours(source, server.url))
    assert server.requests[0].headers["OpenAI-Organization"] == "org-8"


def test_proxy_of_openai_is_not_asked_for_a_server_on_this_machine_where_somebody_hears(
    server, source, seen, monkeypatch, unused_url
):
    monkeypatch.setenv("OPENAI_PROXY", unused_url)
    assert [reply.text for reply in asyncio.run(ours(source, server.url))] == ["ok"] * 2


def test_headers_of_the_environment_are_sent(server, source, monkeypatch):
    for name, value in {**ACCOUNT, "BASE_URL": server.url}.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)
    asyncio.run(ours(source, server.url))
    asyncio.run(bare(server.url))
    kept = {"Authorization", "Content-Type", "OpenAI-Organization", "OpenAI-Project"}
    first, *_, last = ({name: request.headers.get(name) for name in kept} for request in server.requests)
    assert first == last | {"Authorization": "Bearer a-key-of-the-env"}
    assert first["OpenAI-Organization"] == "org-7"
    assert first["OpenAI-Project"] == "proj-7"
    assert server.requests[0].headers["User-Agent"] == "ensemble-notebook"


@pytest.mark.parametrize(
    "name, effort, given, sent",
    [
        ("gpt-5", None, 0.2, None),
        ("gpt-5", None, 1, 1),
        ("gpt-5", "none", 0.2, 0.2),
        ("GPT-5", None, 0.2, None),
        ("gpt-5-chat-latest", None, 0.2, 0.2),
        ("GPT-5-Chat", None, 0.2, 0.2),
        ("m", None, 0.2, 0.2),
    ],
)
def test_a_temperature_is_left_out_where_the_model_takes_only_one(name, effort, given, sent):
    settings = make_settings({"temperature": given, "reasoning_effort": effort}, name)
    assert settings.get("temperature") == sent
    # As langchain-openai has it, which knows the models.
    assert ChatOpenAI(model=name, api_key="none", temperature=given, reasoning_effort=effort).temperature == sent


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/deep/er/v1", "//v1"])
def test_a_request_goes_to_the_host_of_the_address_below_its_path(server, source, path, streamed):
    bare_url = server.url.removesuffix("/v1")
    asyncio.run(ours(source, f"{bare_url}{path}", is_streamed=streamed))
    assert {request.path for request in server.requests} == {f"{path.rstrip('/')}/chat/completions"}


ADDRESSES = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://"]),
    st.sampled_from(["", "user@", "user:pass@", "a%40b:c%2Fd@"]),
    st.sampled_from(["gpu", "gpu.lab", "GPU.lab", "10.0.0.7", "[::1]", "api.openai.com", "xn--bcher-kva.example"]),
    st.sampled_from(["", ":80", ":443", ":8000"]),
    st.text(alphabet="/v1\\@:?# .%é", max_size=6),
)


@given(url=ADDRESSES)
@settings(max_examples=300)
def test_whatever_address_is_accepted_is_the_one_that_is_asked(url):
    try:
        accepted = check_url(url)
    except ValidationError:
        return
    asked = yarl.URL(find_completions_url(accepted)[0])
    meant = urlsplit(url)
    assert asked.raw_host == (meant.hostname or "").encode("idna").decode()
    assert asked.explicit_port == meant.port
    assert asked.user is None
    assert asked.path.endswith("/chat/completions")


class Seen(BaseCallbackHandler):
    """What a tracer gets to see."""

    def __init__(self):
        self.prompts = []
        self.tools = []
        self.replies = []
        self.errors = []
        self.tokens = []

    def on_chat_model_start(self, serialized, messages, *, invocation_params=None, **kwargs):
        self.prompts.append([(message.type, message.text) for message in messages[0]])
        self.tools.append([tool["function"]["name"] for tool in invocation_params.get("tools", ())])

    def on_llm_new_token(self, token, **kwargs):
        self.tokens.append(token)

    def on_llm_end(self, response, **kwargs):
        message = response.generations[0][0].message
        assert isinstance(message, AIMessage)
        self.replies.append((message.text, [call["name"] for call in message.tool_calls], message.usage_metadata))

    def on_llm_error(self, error, **kwargs):
        self.errors.append(type(error).__name__)


_tracing = contextvars.ContextVar("tracing", default=None)
register_configure_hook(_tracing, inheritable=True)


@pytest.fixture
def seen():
    """A handler that nobody passes on: found in the context, as tracers are."""
    handler = Seen()
    token = _tracing.set(handler)
    yield handler
    _tracing.reset(token)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
def test_tracer_of_the_context_sees_messages_tools_and_replies(server, source, seen, is_streamed):
    server.script(ASKED, Answer("Done and done."))
    asyncio.run(ours(source, server.url, tools=(SEARCH,), is_streamed=is_streamed))
    first, second = seen.prompts
    assert first == [("system", MESSAGES[0].text), ("human", MESSAGES[1].text)]
    assert second == [*first, ("ai", "Looking."), ("tool", "found"), ("tool", "found")]
    assert seen.tools == [["search"], ["search"]]
    assert [(text, calls) for text, calls, _ in seen.replies] == [("Looking.", ["search"] * 2), ("Done and done.", [])]
    assert [usage["input_tokens"] for *_, usage in seen.replies] == [11, 11]
    assert "".join(seen.tokens) == ("Looking.Done and done." if is_streamed else "")


def test_tracer_of_the_context_sees_errors(server, source, seen):
    server.script(Answer.status(429))
    with pytest.raises(Exception, match="429"):
        asyncio.run(ours(source, server.url))
    assert [name.removeprefix("OpenAI") for name in seen.errors] == ["RateLimitError"]


def test_error_is_the_one_of_the_openai_package(server, source):
    import openai

    server.script(Answer.status(404, code="model_not_found", message="No such model.", retry_after=3))
    with pytest.raises(openai.NotFoundError, match="No such model") as caught:
        asyncio.run(ours(source, server.url))
    assert caught.value.code == "model_not_found"
    assert caught.value.response.headers["retry-after"] == "3"
    assert caught.value.response.json()["error"]["message"] == "No such model."


def test_redirect_is_not_followed(server, source):
    server.script(Answer.status(307))
    with pytest.raises(Exception, match="307"):
        asyncio.run(ours(source, server.url))
    assert len(server.requests) == 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", "OPENAI_PROXY"])
def test_server_elsewhere_is_reached_through_the_proxy_of_the_environment(server, source, monkeypatch, variable):
    monkeypatch.setenv(variable, server.url.removesuffix("/v1"))
    asyncio.run(ours(source, "http://model.invalid/v1"))
    assert [request.headers["Host"] for request in server.requests] == ["model.invalid"] * 2


def origin_of(error):
    while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
        error = error.__cause__
    return error


def test_server_that_needs_no_proxy_is_reached_without(source, unused_url, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", unused_url)
    monkeypatch.setenv("NO_PROXY", "model.invalid")
    with pytest.raises(Exception, match="Connection") as caught:
        asyncio.run(ours(source, "http://model.invalid/v1"))
    assert "model.invalid" in str(origin_of(caught.value))


def test_password_file_of_other_programs_is_not_read(server, source, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text(
        "machine 127.0.0.1 login me password secret\nmachine model.invalid login a password b"
    )
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", server.url)
    asyncio.run(ours(source, "http://model.invalid/v1"))
    assert server.requests[0].headers["Authorization"] == "Bearer none"


def test_error_in_the_middle_of_a_stream_is_raised(server, source):
    import openai

    server.script(Answer(raw=b'{"error": {"message": "Too busy.", "code": "server_error"}}'))
    with pytest.raises(openai.APIError, match="Too busy") as caught:
        asyncio.run(ours(source, server.url, is_streamed=True))
    assert caught.value.code == "server_error"


def test_connection_is_used_again_after_a_stream(server, source):
    asyncio.run(ours(source, server.url, is_streamed=True))
    assert len({request.peer for request in server.requests}) == 1
