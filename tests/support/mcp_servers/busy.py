"""A server whose only tool, `work`, goes on for ever. Its first argument says how it takes its end.

"sync" does not look at its input while it works; "async" ends with its input; "deaf" and what it starts ignore all
signals that can be ignored. In the file of its second argument it notes the processes, one a line, once it is at work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HOW, NOTE = sys.argv[1:]
TOOL = {"name": "work", "description": "Work.", "inputSchema": {"type": "object", "properties": {}}}
SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
started = [os.getpid()]
if HOW == "deaf":
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-S", "-c", SLEEP], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    child.stdout.readline()
    started.append(child.pid)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "tools/call":
        Path(f"{NOTE}.part").write_text("\n".join(map(str, started)))
        Path(f"{NOTE}.part").rename(NOTE)
        while HOW != "async":
            time.sleep(600)
    elif "id" in asked:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "busy", "version": "1"}}
        answer = (
            {"protocolVersion": asked["params"]["protocolVersion"], **about, "tools": [TOOL]}
            if asked.get("params", {}).get("protocolVersion")
            else {"tools": [TOOL]}
        )
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
