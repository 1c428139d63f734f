"""The service of "Approval in a second request" (docs/services.md), with the deferred tools of pydantic-ai.

The same tools, requests and server; its messages are kept as its documentation says, as JSON, by a name of the run.
"""

import json
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserError,
)
from pydantic_ai.models.function import FunctionModel

PAID = []
KEPT = Path("runs")


# In place of your model: it looks the order up, wants the money back, and tells what came of it.
def play(messages, info):
    script = [
        ToolCallPart("order_status", {"order": "A7"}),
        ToolCallPart("refund", {"order": "A7", "amount": 40}),
        TextPart("It is settled."),
    ]
    return ModelResponse(parts=[script[sum(isinstance(each, ModelResponse) for each in messages)]])


llm = FunctionModel(play)
clerk = Agent(llm, name="Clerk", instructions="Settle claims", output_type=[str, DeferredToolRequests])


@clerk.tool_plain
def order_status(order: str) -> str:
    """Look an order up."""
    return f"{order} never arrived"


@clerk.tool_plain(requires_approval=True)
def refund(order: str, amount: float) -> str:
    """Pay the money of an order back."""
    PAID.append((order, amount))
    return f"{amount:g} paid back"


def tell(run, result):
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{run}.json").write_bytes(result.all_messages_json())
    if isinstance(result.output, str):
        return {"run": run, "status": "completed", "text": result.output, "waiting": []}
    waiting = [
        {"id": each.tool_call_id, "tool": each.tool_name, "arguments": each.args_as_dict()}
        for each in result.output.approvals
    ]
    return {"run": run, "status": "paused", "text": "", "waiting": waiting}


def go_on(run, answers):
    path = KEPT / f"{uuid.UUID(run)}.json"  # a name that is no path
    approvals = {call: answer["decision"] == "approve" for call, answer in answers.items()}
    return clerk.run_sync(
        message_history=ModelMessagesTypeAdapter.validate_json(path.read_bytes()),
        deferred_tool_results=DeferredToolResults(approvals=approvals),
    )


class Claims(BaseHTTPRequestHandler):
    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path == "/claims":
                code, told = 200, tell(str(uuid.uuid4()), clerk.run_sync(f"Settle the claim: {given['text']}"))
            else:  # /answers: {"run": ..., "answers": {id: {"decision": "approve", "by": ...}}}
                code, told = 200, tell(given["run"], go_on(given["run"], given["answers"]))
        except (UserError, ValueError, FileNotFoundError) as error:
            code, told = 409, {"error": str(error)}
        body = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(port=8000):
    return ThreadingHTTPServer(("127.0.0.1", port), Claims)
