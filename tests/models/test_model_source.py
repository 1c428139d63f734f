"""From specs and objects to ports: what is shared, what is not, and what is refused before anything is asked."""

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.tracers.context import collect_runs
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.langchain.langchain_port import LangChainPort
from ensemble_notebook.models.langchain.scripted_model import Reply, ScriptedChatModel
from ensemble_notebook.models.model_kinds import KINDS, describe_models
from ensemble_notebook.models.model_source import ModelSource, get_default_source
from ensemble_notebook.models.model_spec import ModelParameters, ServedModel
from ensemble_notebook.models.openai.endpoint import Endpoint
from tests.support.openai_server import Answer

ROOT = Path(__file__).parent.parent.parent


def ask(source, llm, *, times=1):
    """Replies to questions on a loop of their own."""

    async def run():
        return [(await (await source.prepare(llm, print)).open("s", "u").reply()).text for _ in range(times)]

    return asyncio.run(run())


def port_of(source, llm):
    return asyncio.run(source.prepare(llm, print))


def connections(server):
    """How many connections the server has been asked over, by the clients' ports."""
    return len({request.peer for request in server.requests})


def user_model(server, **settings):
    return ChatOpenAI(model="m", base_url=server.url, api_key="a-key-of-the-user", **settings)


@pytest.fixture(params=["spec", "object"])
def llm(request, server):
    return f"openai:m@{server.url}" if request.param == "spec" else user_model(server)


def test_requests_of_one_loop_share_a_connection(server, source, llm):
    ask(source, llm, times=5)
    assert connections(server) == 1


def test_model_works_on_one_loop_after_another(server, source, llm):
    assert [ask(source, llm) for _ in range(5)] == [["ok"]] * 5


def test_model_works_on_two_loops_in_turn(server, source, llm):
    with asyncio.Runner() as first, asyncio.Runner() as second:
        for runner in (first, second, first, second):
            port = runner.run(source.prepare(llm, print))
            assert runner.run(port.open("s", "u").reply()).text == "ok"
    assert connections(server) == 2


def test_model_works_on_the_loops_of_several_threads(server, source, llm):
    server.default = Answer(delay=0.05)
    replies = []
    threads = [threading.Thread(target=lambda: replies.extend(ask(source, llm, times=3))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == ["ok"] * 18


def test_clients_are_closed_with_their_loop(server, source, llm):
    loops = []

    async def once():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await (await source.prepare(llm, print)).open("s", "u").reply()

    for _ in range(5):
        asyncio.run(once())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 5
    open_ones = psutil.Process().net_connections(kind="tcp")
    assert [each for each in open_ones if each.raddr and each.raddr.port == server.port] == []


def test_client_of_a_model_goes_with_the_model(server, source):
    async def run():
        model = user_model(server)
        port = await source.prepare(model, print)
        await port.open("s", "u").reply()
        client = weakref.ref(port.connection_handle.connections)
        del model, port
        for _ in range(300):
            gc.collect()
            await asyncio.sleep(0.01)
            if client() is None:
                break
        return client()

    assert asyncio.run(run()) is None


def test_connections_of_a_model_in_a_cycle_are_closed_before_the_collector_gets_to_them(server, source):
    """What the collector closes by itself is an unclosed socket and a warning, which fails this test."""

    async def run():
        model = user_model(server)
        port = await source.prepare(model, print)
        await port.open("s", "u").reply()
        client = weakref.ref(port.connection_handle.connections)
        del model
        gc.collect()  # from here on the port alone keeps the connections open
        cycle = [port]
        cycle.append(cycle)
        del port, cycle
        gc.collect()
        while client() is not None:
            await asyncio.sleep(0)
            gc.collect()

    asyncio.run(run())


class Seen(BaseCallbackHandler):
    """What a user's callback gets to see."""

    def __init__(self):
        self.starts = []
        self.ends = []

    def on_chat_model_start(self, serialized, messages, *, tags=None, **kwargs):
        self.starts.append(([message.text for message in messages[0]], tags))

    def on_llm_end(self, response, **kwargs):
        self.ends.append(response.generations[0][0].text)


def test_callbacks_tags_and_parameters_of_a_model_stay(server, source):
    seen = Seen()
    model = user_model(server, callbacks=[seen], tags=["mine"], temperature=0.3, default_headers={"X-Team": "kitchen"})
    ask(source, model)
    assert seen.starts == [(["s", "u"], ["mine"])]
    assert seen.ends == ["ok"]
    assert server.requests[0].body["temperature"] == 0.3
    assert server.requests[0].headers["X-Team"] == "kitchen"
    assert server.requests[0].headers["Authorization"] == "Bearer a-key-of-the-user"


def test_change_of_a_model_counts_in_the_next_run(server, source):
    model = user_model(server, temperature=0.3)
    ask(source, model)
    model.temperature = 0.9
    ask(source, model)
    assert [request.body["temperature"] for request in server.requests] == [0.3, 0.9]


@pytest.mark.parametrize("status", [429, 500])
def test_no_request_is_repeated_behind_the_back(server, source, llm, status):
    server.default = Answer.status(status, retry_after=0)
    port = port_of(source, llm)
    assert port.warning is None
    with pytest.raises(Exception, match=str(status)):
        ask(source, llm)
    assert len(server.requests) == 1


def test_user_s_model_is_not_changed(server, source):
    model = user_model(server, max_retries=3)
    before = dict(vars(model))
    ask(source, model)
    assert vars(model) == before


def test_http_client_of_a_user_is_used_and_left_open(server, source):
    import openai

    async def run():
        async with openai.DefaultAsyncHttpxClient(headers={"X-Own": "yes"}) as own:
            port = await source.prepare(user_model(server, http_async_client=own), print)
            await port.open("s", "u").reply()
            del port
            gc.collect()
            await asyncio.sleep(0.01)
            assert not own.is_closed

    asyncio.run(run())
    assert server.requests[0].headers["X-Own"] == "yes"


def test_relatives_of_chat_openai_are_treated_alike(server, source):
    model = AzureChatOpenAI(
        azure_endpoint=server.url.removesuffix("/v1"), azure_deployment="d", api_version="2024-10-21", api_key="none"
    )
    server.default = Answer.status(500)
    port = port_of(source, model)
    assert (port.provider, port.warning) == ("azure", None)
    with pytest.raises(Exception, match="500"):
        ask(source, model)
    assert len(server.requests) == 1


def test_wrapped_model_keeps_its_wrapping(server, source):
    seen = Seen()
    wrapped = user_model(server).bind(stop=["END"]).with_config(callbacks=[seen], tags=["mine"])
    port = port_of(source, wrapped)
    assert (port.name, port.provider, port.has_tool_support, port.warning) == ("m", "127.0.0.1", True, None)
    assert ask(source, wrapped) == ["ok"]
    assert server.requests[0].body["stop"] == ["END"]
    assert seen.starts[0][1] == ["mine"]


def test_retries_that_can_not_be_switched_off_are_told(server, source):
    class Stubborn(FakeListChatModel):
        max_retries: int = 6

    assert (
        "Stubborn tries failed requests again by itself (max_retries=6)"
        in port_of(source, Stubborn(responses=["a"])).warning
    )
    assert "RunnableRetry" in port_of(source, user_model(server).with_retry()).warning
    assert port_of(source, Stubborn(responses=["a"], max_retries=0)).warning is None


def test_object_is_named_for_what_it_is(server, source):
    facts = [
        (port.name, port.provider, port.is_scripted, port.has_tool_support)
        for port in (
            port_of(source, user_model(server)),
            port_of(source, FakeListChatModel(responses=["a"])),
            port_of(source, ScriptedChatModel(replies=["a"], model_name="chef")),
        )
    ]
    assert facts == [
        ("m", "127.0.0.1", False, True),
        ("FakeListChatModel", "scripted", True, False),
        ("chef", "scripted", True, True),
    ]


def test_key_of_a_model_object_is_masked_from_then_on(server, source):
    class Foreign(FakeListChatModel):
        token: SecretStr

    port_of(source, Foreign(responses=["a"], token=SecretStr("hush-hush-hush")))
    port_of(source, user_model(server))
    assert mask("hush-hush-hush a-key-of-the-user") == "*** ***"


def test_key_comes_from_the_environment_of_the_moment(server, source, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "first-key-0001")
    ask(source, f"openai:m@{server.url}")
    monkeypatch.setenv("OPENAI_API_KEY", "second-key-0002")
    ask(source, f"openai:m@{server.url}")
    sent = [request.headers["Authorization"] for request in server.requests]
    assert sent == ["Bearer first-key-0001", "Bearer second-key-0002"]
    assert mask("second-key-0002") == "***"
    assert "second-key-0002" not in repr(port_of(source, f"openai:m@{server.url}"))


def test_address_may_come_from_the_environment(server, source, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert ask(source, "openai:m") == ["ok"]


def test_key_variable_can_be_named(server, source, monkeypatch):
    monkeypatch.setenv("MY_KEY", "my-own-key-1234")
    spec = {"model": "m", "base_url": server.url, "api_key_env": "MY_KEY"}
    assert ask(source, spec) == ["ok"]
    assert server.requests[0].headers["Authorization"] == "Bearer my-own-key-1234"


@pytest.mark.parametrize(
    "llm, says",
    [
        ("openai:gpt-4o-mini", "OPENAI_API_KEY, which is not set"),
        ({"model": "m", "base_url": "http://localhost:1/v1", "api_key_env": "MY_KEY"}, "MY_KEY, which is not set"),
        ("opena:gpt", "Did you mean 'openai:gpt'?"),
        ("local:nowhere.gguf", "No such file or directory"),
        ("local:pyproject.toml", "local:PATH.gguf"),
    ],
)
def test_model_that_can_not_be_used_is_refused_by_check_and_by_prepare(source, llm, says):
    with pytest.raises(ValidationError, match=says.replace("?", r"\?")):
        source.check(llm)
    with pytest.raises(ValidationError, match=says.replace("?", r"\?")):
        port_of(source, llm)


@pytest.mark.parametrize("llm", ["local", "scripted", "openai:m@http://localhost:1", FakeListChatModel(responses=[])])
def test_check_accepts_what_can_be_used(source, llm):
    source.check(llm)


def test_spec_scripted_is_an_echo_that_says_so(source):
    port = port_of(source, "scripted")
    assert (port.name, port.provider, port.is_scripted) == ("scripted", "scripted", True)
    first, second = ask(source, "scripted", times=2)
    assert first == second == "[scripted: no model was asked] u"


def test_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(server, source, monkeypatch, unused_url):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, unused_url)
    assert ask(source, f"openai:m@{server.url}") == ["ok"]


def test_prepared_model_answers_on_its_own_loop_while_another_is_prepared(server, source):
    async def run():
        slow = ScriptedChatModel(replies=[Reply("slow", delay=0.05)])
        port, _ = await asyncio.gather(source.prepare(slow, print), source.prepare(f"openai:m@{server.url}", print))
        return (await port.open("s", "u").reply()).text

    assert asyncio.run(run()) == "slow"


def test_offers_say_what_is_missing(monkeypatch):
    offers = {offer.spec: offer for offer in describe_models()}
    assert list(offers) == [form for kind in KINDS for form in kind.forms]
    assert not offers["openai:NAME"].is_ready
    assert "OPENAI_API_KEY" in offers["openai:NAME"].note
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-to-be-kept-quiet")
    offer = {offer.spec: offer for offer in describe_models()}["openai:NAME"]
    assert (offer.is_ready, offer.note) == (True, "key in OPENAI_API_KEY")


def test_source_of_the_process_is_one():
    assert get_default_source() is get_default_source()
    assert isinstance(get_default_source(), ModelSource)


def test_importing_the_source_imports_no_provider():
    heavy = {"aiohttp", "httpx", "httpx2", "langchain_core", "langchain_openai", "openai", "platformdirs", "pydantic"}
    heavy |= {"xllamacpp"}
    script = "import sys, ensemble_notebook.models.model_source as s; s.get_default_source(); "
    script += f"print({heavy} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


@pytest.mark.parametrize("way", ["own", "langchain"])
def test_e40_a_server_of_this_process_hears_of_the_sockets_that_it_is_to_cut(server, source, way):
    """As its end does, which would else wait for what is being written, whoever asks."""
    server.script(Answer("Soup", delay=3))
    made = []
    endpoint = Endpoint("m", server.url, None, "none")
    spec = ServedModel(endpoint=endpoint, watch_socket=made.append, settings={"streaming": True})

    async def run():
        with collect_runs() if way == "langchain" else nullcontext():
            port = await source._open_served(spec, ModelParameters(), print)
            assert isinstance(port, LangChainPort) == (way == "langchain")
            asking = asyncio.create_task(port.open("s", "u").reply())
            while not server.requests:  # noqa: ASYNC110 - a server on a thread
                await asyncio.sleep(0.01)
            (each,) = made
            each.shutdown(socket.SHUT_RDWR)
            with pytest.raises(Exception, match=r"(?i)connection|disconnected") as caught:
                await asking
            return port.classify(caught.value)

    assert asyncio.run(run()).reason == "connection"
