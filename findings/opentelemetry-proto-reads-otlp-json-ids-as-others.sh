#!/usr/bin/env bash
# opentelemetry-proto 1.45.2, protobuf as it asks for (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: OTLP JSON, such as a Collector's file has, is read by the JSON parser of protobuf into the official classes.
# Seen: it is, without an error, and with other ids. OTLP has ids as hexadecimal digits, protobuf's JSON has bytes as
# base64, and any such digits are valid base64: a trace id of 16 bytes becomes one of 24, a span id of 8 one of 12. The
# spans still hang together, so nobody sees it before they are looked up by their ids, or lie beside those of others.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet opentelemetry-proto==1.45.2
"$folder/env/bin/python" - <<'PY'
import json

from google.protobuf.json_format import Parse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

# The ids of the example in the specification of OTLP.
trace_id, span_id = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
span = {"traceId": trace_id, "spanId": span_id, "name": "I'm a server span", "kind": 2}
document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
(read,) = Parse(json.dumps(document), TracesData()).resource_spans[0].scope_spans[0].spans
print(f"trace id {trace_id} became {read.trace_id.hex()}, span id {span_id} became {read.span_id.hex()}")
assert read.name == span["name"]
assert len(read.trace_id) == 24 and read.trace_id != bytes.fromhex(trace_id)
assert len(read.span_id) == 12 and read.span_id != bytes.fromhex(span_id)
PY
