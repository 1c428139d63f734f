#!/usr/bin/env bash
# openrouter 0.10.8 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: OpenRouter's own client reads a chat completion without `system_fingerprint`, which OpenAI's reference calls
# optional (and deprecated), and which servers and proxies of that protocol leave out.
# Seen: ResponseValidationError, "body.system_fingerprint Field required"; with a null in its place the reply is read. A
# reply that was paid for is lost.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet openrouter==0.10.8
"$folder/env/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openrouter import OpenRouter

reply = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "High tide."}}],
}


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenRouter(api_key="none", server_url=f"http://127.0.0.1:{server.server_port}")


def ask() -> str:
    try:
        result = client.chat.send(model="m", messages=[{"role": "user", "content": "Tides?"}])
        return str(result.choices[0].message.content)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:160]}"


bare = ask()
reply["system_fingerprint"] = None
given = ask()
print(f"without: {bare!r}; null: {given!r}")
assert given == "High tide."
assert bare != "High tide."
PY
