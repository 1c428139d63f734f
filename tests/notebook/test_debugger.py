"""``%tb`` and ``%debug`` in a real IPython: short, and in the user's own frame (C13, E48)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.notebook.conftest import Shell

SESSION = """\
from ensemble_notebook import Ensemble, Task
def fetch(given):
    marker = "here " + "I am"
    return {}["missing"]

Ensemble(tasks=[Task.of("Fetch", name="fetch", handler=fetch)]).run()
%tb
%debug
print(marker)
q
exit
"""


def test_the_traceback_is_short_and_the_debugger_lands_in_the_users_frame_e48() -> None:
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-confirm-exit", "--colors=NoColor"]
    seen = subprocess.run(command, input=SESSION, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "TaskExecutionError: Task 'fetch' (Handler) failed: KeyError: 'missing' (at In[2]:3 in fetch)" in seen
    traceback, _, debugger = seen.partition("ipdb> ")
    assert 'File "In[2]", line 3, in fetch' in traceback
    assert "run_handle.py" not in traceback
    assert "----> 3     return {}" in traceback
    assert debugger.startswith("here I am")


LITERALS = [
    ('client("sk-abcdefghijklmnop1234567890")', 'client("***")'),
    ('client(api_key="0123456789abcdef0123456789")', 'client(api_key="***")'),
    ("client(token='abcdef0123456789')", "client(token='***')"),
    ('client({"accessToken": "abcdef0123456789"})', 'client({"accessToken": "***"})'),
    ('client(hf_token="abcd\\"ef0123456789")', 'client(hf_token="***")'),
    ('client("HF_TOKEN", "abcdef0123456789")', 'client("HF_TOKEN", "***")'),
    ('client(password="hunter22!x")', 'client(password="***")'),
    ('client("postgresql://me:pa55word@db/x")', 'client("postgresql://***@db/x")'),
    ('client(headers={"Authorization": "Basic dXNlcjpwYXNzd29yZA=="})', 'client(headers={"Authorization": "***"})'),
    ('client(max_tokens="as many as it takes")', 'client(max_tokens="as many as it takes")'),
    ('client(monkey="in the banana tree")', 'client(monkey="in the banana tree")'),
    ("client(token=read_token())", "client(token=read_token())"),
]


@pytest.mark.parametrize("written, shown", LITERALS)
def test_a_traceback_shows_no_secret_that_stands_in_the_users_own_line_e69(
    shell: Shell, capsys: pytest.CaptureFixture[str], written: str, shown: str
) -> None:
    shell.run("def client(*given, **named): raise KeyError('missing')\ndef read_token(): return ''")
    shell.run(f"def call(task):\n    return {written}")
    shell.error("%%ensemble\n- {description: Call, handler: call}")
    shell.ip.run_line_magic("tb", "")
    seen = capsys.readouterr().out
    assert "at In[" in seen or "in call" in seen
    assert f"    return {shown}\n" in seen
    if written != shown:
        assert written not in seen
