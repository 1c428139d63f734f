"""E51: what an agent's tools have told stays, where a guardrail sends back what it made of that."""

from __future__ import annotations

from typing import Any

from ensemble_notebook import EnsembleOutput, Task, TaskOutput, TaskRetried, ToolUse
from tests.conformance.scene import of, run, run_cell, scripted


def is_polite(output: TaskOutput) -> str | None:
    """A guardrail."""
    return None if "please" in output.raw else "Say please."


def test_e51_the_agent_goes_on_with_what_its_tools_have_told() -> None:
    looked: list[str] = []

    def look(what: str) -> str:
        """Look it up."""
        looked.append(what)
        return "the price is 3"

    replies = (ToolUse("look", {"what": "price"}), "Pay 3!", "Pay 3, now!", "Pay 3, please.")
    for make in (_write_with_tools, _write_with_tools_in_a_cell):
        looked.clear()
        llm = scripted(*replies)
        output = make(llm, look)
        assert (output.raw, looked) == ("Pay 3, please.", ["price"])
        assert output["letter"].tool_call_count == 1
        roles = [each.role for each in output.trace.tasks[0].turns[-1].messages]
        assert roles[-2:] == ["user", "assistant"]
        told = [str(each.content) for each in llm.calls[-1].messages]
        assert told[3:5] == ["the price is 3", "Pay 3!"]
        assert told[5].startswith("## Revision Instructions (Attempt 2)\nSay please.\n\n### Previous Output\nPay 3!")
        assert told[7].startswith("## Revision Instructions (Attempt 3)\nSay please.\nSay please.\n\n### Previous")
        assert [each.attempt for each in of(output, TaskRetried)] == [2, 3]
        assert [message.role for message in output.trace.tasks[0].messages] == [
            *("system", "user", "assistant", "tool", "assistant"),
            *("user", "assistant") * 2,
        ]


def _write_with_tools(llm: Any, look: Any) -> EnsembleOutput:
    return run(
        Task.of("Write", name="letter", llm=llm, tools=[look], output_guardrails=is_polite, max_guardrail_retries=2)
    )


def _write_with_tools_in_a_cell(llm: Any, look: Any) -> EnsembleOutput:
    cell = "- {name: letter, description: Write, llm: llm, tools: look, guardrail: is_polite, max_guardrail_retries: 2}"
    return run_cell(cell, is_polite=is_polite, llm=llm, look=look)
