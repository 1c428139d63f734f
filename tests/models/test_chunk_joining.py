"""Chunks that came at once, joined: what LangChain makes of them is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import message_chunk_to_message
from langchain_openai import ChatOpenAI

from ensemble_notebook.models.openai.streamed_reply import join_chunks

MODEL = ChatOpenAI(model="m", base_url="http://127.0.0.1:1/v1", api_key="none")
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}

contents = st.none() | st.text("ab \n", max_size=3)
deltas = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["assistant", None]), "content": contents, "refusal": st.none()}
)
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
calls = st.just({"tool_calls": [CALL]})


def chunk(delta, *, usage=None, finish=None, **facts):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "created": 1, "model": "m", "choices": [choice], "usage": usage, **facts}


def end(usage=USAGE):
    return {"id": "chatcmpl-1", "created": 2, "model": "m", "choices": [], "usage": usage}


def read(chunks):
    """The message that LangChain makes of them."""
    known = [MODEL._convert_chunk_to_generation_chunk(each, type(MODEL_CHUNK), None) for each in chunks]
    whole = known[0].message
    for each in known[1:]:
        whole = whole + each.message
    infos = [each.generation_info for each in known if each.generation_info]
    return message_chunk_to_message(whole), infos


MODEL_CHUNK = MODEL._convert_chunk_to_generation_chunk(chunk({"role": "assistant"}), object, None).message


@given(st.lists(deltas | calls, max_size=6), st.sampled_from([None, "stop", "length"]), st.sampled_from([None, USAGE]))
def test_joined_chunks_make_the_same_message(pieces, finish, usage):
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, pieces), chunk({}, finish=finish), end(usage)]
    joined = list(join_chunks(chunks))
    assert read(joined) == read(chunks)
    if not any("tool_calls" in each for each in pieces):
        assert len(joined) == 1


@pytest.mark.parametrize(
    "second",
    [
        chunk({"content": "b"}, model="other"),
        chunk({"content": "b"}, system_fingerprint="fp"),
        chunk({"content": "b", "refusal": "no"}),
        chunk({"content": [{"type": "text"}]}),
        chunk({"role": "user", "content": "b"}),
        chunk(None),
        {**chunk({"content": "b"}), "choices": None},
        {**chunk({"content": "b"}), "choices": [{"index": 1, "delta": {"content": "b"}}]},
        {**chunk({"content": "b"}), "choices": [{"index": 0, "delta": {"content": "b"}, "logprobs": {"content": []}}]},
        {"error": {"message": "overloaded"}},
    ],
)
def test_what_tells_more_than_text_stays_by_itself(second):
    first = chunk({"content": "a"})
    assert list(join_chunks([first, second])) == [first, second]


def test_text_behind_an_end_or_a_usage_stays_by_itself():
    for first in (chunk({"content": "a"}, finish="stop"), chunk({"content": "a"}, usage=USAGE)):
        assert list(join_chunks([first, chunk({"content": "b"})])) == [first, chunk({"content": "b"})]


def test_nothing_is_joined_to_nothing():
    assert list(join_chunks([])) == []
