#!/usr/bin/env bash
# google-genai 2.34.0 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: the client of Gemini's API reads its streams as server-sent events, so that a proxy may name the type of an event
# ("event: message", the type that an event has without a name), as the WHATWG's standard of such streams says.
# Seen: the line is taken for the JSON of a reply: UnknownApiResponseError, "Failed to parse response as JSON. Raw response:
# event: message". The same stream without the line is read.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet google-genai==2.34.0
"$folder/env/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google import genai

CHUNK = {"candidates": [{"content": {"role": "model", "parts": [{"text": "High tide."}]}, "finishReason": "STOP"}]}
begins_with = b""


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(begins_with + b"data: " + json.dumps(CHUNK).encode() + b"\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = genai.Client(api_key="none", http_options={"base_url": f"http://127.0.0.1:{server.server_port}"})


def ask() -> str:
    try:
        chunks = client.models.generate_content_stream(model="gemini-2.5-flash", contents="Tides?")
        return "".join(chunk.text or "" for chunk in chunks)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:90]}"


plain = ask()
begins_with = b"event: message\r\n"
named = ask()
print(f"data alone: {plain!r}; with its type: {named!r}")
assert plain == "High tide."
assert named != "High tide."
PY
