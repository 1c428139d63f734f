#!/usr/bin/env bash
# smolagents 1.26.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: `agent.run(task, reset=False, return_full_result=True)` goes on with the conversation, and its `RunResult` says what
# this run used, as `timing` does and as each run's result says where nothing is kept.
# Seen: `token_usage` and `steps` are of the whole conversation, `timing` of this run alone. Who adds up the results of three
# runs of one call each, 1,000 tokens a call, has 6,000 tokens; who divides by the time has a rate that rises with each run.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet smolagents==1.26.0
"$folder/env/bin/python" - <<'PY'
from smolagents import ChatMessage, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import TokenUsage


class Forecaster(Model):
    def generate(self, messages, **given):
        answer = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": "rain"})
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content="",
            tool_calls=[ChatMessageToolCall(id="1", type="function", function=answer)],
            token_usage=TokenUsage(input_tokens=900, output_tokens=100),
        )


agent = ToolCallingAgent(tools=[], model=Forecaster(model_id="forecaster"), verbosity_level=0)
told = []
for is_new in (True, False, False):
    result = agent.run("Tell the weather", reset=is_new, return_full_result=True)
    told.append((result.token_usage.total_tokens, len(result.steps)))
    print(f"reset {is_new}: one call; told: {told[-1][0]} tokens in {told[-1][1]} steps, in {result.timing.duration:.3f} s")
assert told == [(1000, 2), (2000, 4), (3000, 6)], told
PY
