"""A run goes into a viewer as OTLP and comes back, as docs/interop.md says it: to a stand-in for the viewer.

`make test-others` tells the same story to Phoenix.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.viewer_story import tell_viewer_story


class Viewer(BaseHTTPRequestHandler):
    """Takes spans as the SDK sends them, and gives them as a page of spans, with the ids in hexadecimal digits."""

    spans: list[dict[str, Any]]

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for group in sent.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    ids = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_span_id}
                    told = MessageToDict(span) | {name: each.hex() for name, each in ids.items() if each}
                    self.spans.append(told)
        self.answer(b"{}")

    def do_GET(self) -> None:
        self.answer(json.dumps({"data": self.spans, "next_cursor": None}).encode())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def viewer() -> Iterator[ThreadingHTTPServer]:
    Viewer.spans = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Viewer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_run_goes_into_a_viewer_and_comes_back_t124(
    viewer: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = tell_viewer_story(f"http://127.0.0.1:{viewer.server_port}", lambda count: len(Viewer.spans) == count)
    names["provider"].shutdown()
    assert names["back"].attempts.agent.tolist() == names["output"].frames.attempts.agent.tolist() * 2
