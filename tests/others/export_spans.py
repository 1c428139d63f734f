"""Writes into a folder what Langfuse's SDK, Logfire's and Phoenix's clients give; run in an environment that has them.

No service is asked: a server on loopback answers as theirs do, and the classes of each library read and write it.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import logfire
from google.protobuf.json_format import MessageToDict
from langfuse import Langfuse
from logfire.query_client import LogfireQueryClient
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from phoenix.client import Client

FOLDER = Path(sys.argv[1])
TIME = "2026-11-28T10:00:0%d.000000Z"


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    write_langfuse(url)
    with LogfireQueryClient("pylf_v1_local_token", base_url=url) as client:
        told = client.query_json_rows("select * from records", min_timestamp=datetime(2026, 11, 28, tzinfo=UTC))
    write("logfire-client", told)
    write("logfire-answer", LOGFIRE)
    write_logfire_spans()
    write("phoenix-client", Client(base_url=url).spans.get_spans(project_identifier="some"))
    server.shutdown()


def write(name: str, document: Any) -> None:
    (FOLDER / f"{name}.json").write_text(json.dumps(document, default=str))


def write_spans(name: str, exporter: InMemorySpanExporter) -> None:
    """As OTLP JSON, whose ids are hexadecimal."""
    document = MessageToDict(encode_spans(exporter.get_finished_spans()))
    spans = [
        span for resource in document["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]
    for span in spans:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
    write(name, document)


def write_langfuse(url: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    langfuse = Langfuse(
        public_key="pk-lf-local",
        secret_key="sk-lf-local",
        base_url=url,
        tracer_provider=provider,
        span_exporter=InMemorySpanExporter(),
    )
    page = langfuse.api.observations.get_many(trace_id="t1", fields="core,basic,io,model,usage")
    write("langfuse-answer", OBSERVATIONS)
    write("langfuse-json", json.loads(page.json()))
    write("langfuse-fields", json.loads(page.model_dump_json()))
    with langfuse.start_as_current_observation(name="Desk", as_type="agent", input="Where is parcel 7?") as agent:
        with langfuse.start_as_current_observation(
            name="chat", as_type="generation", model="gpt-4o", input=[{"role": "user", "content": "Parcel 7?"}]
        ) as call:
            call.update(
                output={"role": "assistant", "content": "In Graz."},
                usage_details={"input": 10, "input_cached_tokens": 4, "output": 3},
                cost_details={"input": 0.25, "output": 0.5},
            )
        with langfuse.start_as_current_observation(name="find", as_type="tool", input={"parcel": 7}) as tool:
            tool.update(output="Graz", level="ERROR", status_message="no parcel 7")
        agent.update(output="In Graz.")
    write_spans("langfuse-sdk", exporter)


def write_logfire_spans() -> None:
    """Spans of Logfire's SDK, with the pending ones, of a process that ended before the agent did."""
    exporter = InMemorySpanExporter()
    from logfire._internal.tracer import PendingSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    pending = PendingSpanProcessor(RandomIdGenerator(), SimpleSpanProcessor(exporter))
    logfire.configure(
        send_to_logfire=False,
        console=False,
        additional_span_processors=[SimpleSpanProcessor(exporter), pending],
    )
    agent = logfire.span(
        "agent run", **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}, _span_name="agent"
    )
    agent.__enter__()
    with logfire.span("chat", **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}) as call:
        call.set_attribute("gen_ai.usage.input_tokens", 14)
        call.set_attribute("gen_ai.usage.output_tokens", 3)
    write_spans("logfire-sdk", exporter)


OBSERVATIONS = {
    "data": [
        {
            "id": "o1",
            "traceId": "t1",
            "projectId": "p",
            "parentObservationId": None,
            "type": "AGENT",
            "name": "Desk",
            "startTime": TIME % 0,
            "endTime": TIME % 5,
            "level": "DEFAULT",
        },
        {
            "id": "o2",
            "traceId": "t1",
            "projectId": "p",
            "parentObservationId": "o1",
            "type": "GENERATION",
            "name": "chat",
            "startTime": TIME % 1,
            "endTime": TIME % 2,
            "level": "DEFAULT",
            "model": "gpt-4o",
            "input": '[{"role": "user", "content": "Parcel 7?"}]',
            "output": '{"role": "assistant", "content": "In Graz."}',
            "usageDetails": {"input": 10, "input_cached_tokens": 4, "output": 3, "total": 17},
            "costDetails": {"input": 0.25, "output": 0.5, "total": 0.75},
        },
    ],
    "meta": {"cursor": None},
}
LOGFIRE = {
    "schema": {"fields": [{"name": "trace_id", "data_type": "Utf8", "nullable": True, "dict_id": 0}]},
    "data": [
        {
            "trace_id": "aa" * 16,
            "span_id": "0" * 15 + str(number),
            "parent_span_id": None if number == 1 else "0" * 15 + "1",
            "kind": "span",
            "span_name": name,
            "start_timestamp": TIME % number,
            "end_timestamp": TIME % (7 - number),
            "attributes": told,
        }
        for number, name, told in (
            (1, "agent run", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}),
            (
                2,
                "chat gpt-4o",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "gpt-4o",
                    "gen_ai.usage.input_tokens": 14,
                    "gen_ai.usage.output_tokens": 3,
                },
            ),
        )
    ],
}
PHOENIX = {
    "next_cursor": None,
    "data": [
        {
            "id": f"U3Bhbjo{number}",
            "name": name,
            "context": {"trace_id": "aa" * 16, "span_id": "0" * 15 + str(number)},
            "span_kind": kind,
            "parent_id": None if number == 1 else "0" * 15 + "1",
            "start_time": TIME % number,
            "end_time": TIME % (7 - number),
            "status_code": "OK",
            "status_message": "",
            "attributes": told,
            "events": [],
        }
        for number, name, kind, told in (
            (1, "Desk", "AGENT", {"agent.name": "Desk"}),
            (
                2,
                "chat",
                "LLM",
                {"llm.model_name": "gpt-4o", "llm.token_count.prompt": 14, "llm.token_count.completion": 3},
            ),
        )
    ],
}


class Answers(BaseHTTPRequestHandler):
    """As the query API of Logfire answers, and that of Phoenix."""

    def do_GET(self) -> None:
        self._answer(OBSERVATIONS if "observations" in self.path else PHOENIX)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(LOGFIRE)

    def _answer(self, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    main()
