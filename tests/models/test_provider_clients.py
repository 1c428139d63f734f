"""Clients of another provider's model: copied for a loop, closed with it, and what is left alone."""

import asyncio

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook.models.langchain.langchain_model import describe_hidden_retries
from ensemble_notebook.models.langchain.provider_clients import ProviderClients, find_single_try, has_known_clients


@pytest.fixture
def model():
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(
        model="claude-3-5-haiku-20241022",
        api_key="a-key",
        base_url="http://127.0.0.1:9",
        max_retries=3,
        default_request_timeout=5.0,
        default_headers={"X-Team": "soup"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        max_tokens=2048,
        tags=["mine"],
    )


def find_http_client(model):
    return model._async_client._client


def test_copy_differs_in_its_retries_and_clients_alone(model):
    copy = ProviderClients(model, is_ours=False).runnable
    assert copy is not model
    assert {**dict(copy), "max_retries": 3} == dict(model)
    assert copy.max_retries == copy._async_client.max_retries == 0
    assert find_http_client(copy) is not find_http_client(model)
    assert copy._async_client.api_key == "a-key"
    assert (str(copy._async_client.base_url), copy._async_client.timeout) == ("http://127.0.0.1:9", 5.0)
    assert copy._async_client.default_headers["X-Team"] == "soup"


def test_two_models_share_no_http_client(model):
    one, other = (ProviderClients(model, is_ours=False).runnable for _ in range(2))
    assert find_http_client(one) is not find_http_client(other)


def test_closing_closes_what_is_ours_and_nothing_of_the_user(model):
    theirs = find_http_client(model)

    async def use():
        clients = ProviderClients(model, is_ours=False)
        await clients.aclose()
        return find_http_client(clients.runnable)

    assert asyncio.run(use()).is_closed
    assert not theirs.is_closed


def test_model_that_was_made_for_the_loop_is_not_copied(model):
    assert ProviderClients(model, is_ours=True).runnable is model


def test_openai_models_and_classes_of_ones_own_are_left_alone(model):
    from langchain_anthropic import ChatAnthropic

    class Mine(ChatAnthropic):
        pass

    mine = Mine(**{name: getattr(model, name) for name in model.model_fields_set})
    theirs = ChatOpenAI(model="m", api_key="k")
    for each in (mine, theirs):
        assert not has_known_clients(each)
        for is_ours in (False, True):
            clients = ProviderClients(each, is_ours=is_ours)
            asyncio.run(clients.aclose())
            assert clients.runnable is each
    assert not theirs.root_async_client.is_closed()


def test_object_that_its_class_does_not_make_again_is_used_as_it_is(model):
    model.__dict__["max_tokens"] = "many"
    assert ProviderClients(model, is_ours=False).runnable is model


@pytest.mark.parametrize(
    "package, tries", [("langchain-google-genai", 1), ("langchain_google_vertexai", 1), ("langchain_anthropic", 0)]
)
def test_tries_of_a_single_request(package, tries):
    assert find_single_try(package) == tries


@pytest.mark.parametrize("tries, is_warned", [(0, False), (1, False), (2, True), (6, True)])
def test_a_model_of_google_counts_its_first_try(tries, is_warned):
    chat = type("ChatGoogleGenerativeAI", (), {"__module__": "langchain_google_genai.chat_models"})()
    chat.max_retries = tries
    warning = describe_hidden_retries(chat)
    assert (warning is not None) is is_warned
    assert warning is None or "Make it with max_retries=1" in warning
