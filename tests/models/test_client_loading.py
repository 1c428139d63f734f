"""The client is imported once, and nobody takes it for whole before it is."""

from __future__ import annotations

import subprocess
import sys

# Every module takes its time, so that there is something to see in the middle.
SCRIPT = """
import sys, threading, time
from ensemble_notebook.models import chat_completions

class Slow:
    def find_spec(self, name, path=None, target=None):
        time.sleep(0.001)

sys.meta_path.insert(0, Slow())
threads = [threading.Thread(target=chat_completions.load_client) for _ in range(3)]
for thread in threads:
    thread.start()
count_when_told = None
while any(thread.is_alive() for thread in threads):
    if count_when_told is None and chat_completions.is_client_loaded():
        count_when_told = len(sys.modules)
    time.sleep(0.01)
is_whole = count_when_told in (None, len(sys.modules))
print("in time" if is_whole else "early", chat_completions.is_client_loaded())
"""


def test_client_counts_as_loaded_only_when_all_of_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "in time True", done.stderr


FIRST_ERRORS = """
import asyncio
from ensemble_notebook.models.model_source import ModelSource


async def ask(source, position):
    port = await source.prepare("openai:m@http://127.0.0.1:1/v1", str)
    await asyncio.sleep(position / 50)
    try:
        await port.open("s", "u").reply()
    except Exception as error:
        return type(error).__name__


async def main():
    source = ModelSource()
    async with source.connections_held():
        print(set(await asyncio.gather(*(ask(source, position) for position in range(6)))))


asyncio.run(main())
"""


def test_errors_that_come_while_their_package_is_loaded_wait_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_ERRORS], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'APIConnectionError'}", done.stderr


FIRST_RUNS = """
from ensemble_notebook import Ensemble

for _ in range(2):
    spans = Ensemble.from_yaml("llm: scripted\\ntasks: [hello]\\n", {}).run().frames.spans
    startup = spans[spans.wait_kind.eq("startup")]
    run, turn = (spans[spans.kind.eq(kind)].start_ms.iloc[0] for kind in ("run", "turn"))
    print(startup.name.tolist(), turn - run - startup.duration_ms.sum() < 0.5 * startup.duration_ms.sum())
"""


def test_e57_the_first_import_for_scripted_replies_is_a_startup_and_later_runs_have_none() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_RUNS], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["['Loading langchain-core'] True", "[] False"], done.stderr
