"""``%tb`` and ``%debug`` in a real IPython: short, and in the user's own frame (C13, E48)."""

from __future__ import annotations

import subprocess
import sys

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
