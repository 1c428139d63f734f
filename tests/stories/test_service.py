"""Approval in a second request, as docs/services.md has it (E124)."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "services.md"


@pytest.mark.usefixtures("store_path")
def test_page_runs_as_it_stands_and_an_answer_over_http_counts_once() -> None:
    names: dict[str, Any] = {"__name__": "service"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text().partition("## Approval")[2], re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    server = names["serve"](0)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()

    def post(path: str, **content: Any) -> tuple[int, Any]:
        address = f"http://127.0.0.1:{server.server_port}{path}"
        try:
            with urlopen(Request(address, json.dumps(content).encode()), timeout=60) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    try:
        _, begun = post("/claims", text="it never came")
        (call,) = begun["waiting"]
        assert (call["tool"], call["arguments"], names["PAID"]) == ("refund", {"order": "A7", "amount": 40}, [])
        answers = {call["id"]: {"decision": "approve", "by": "Ann"}}
        _, done = post("/answers", run=begun["run"], answers=answers)
        assert (done["text"], done["waiting"], names["PAID"]) == ("It is settled.", [], [("A7", 40)])
        code, told = post("/answers", run=begun["run"], answers=answers)
        assert (code, names["PAID"]) == (409, [("A7", 40)])
        assert "is answered already: 'approve' by Ann" in told["error"]
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
