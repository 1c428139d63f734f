#!/usr/bin/env bash
# langchain-core 1.8.3 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: the cancellation of an async tool's call that comes when its body has ended changes nothing, as with a coroutine.
# Seen: `BaseTool.arun` runs the body in a task of its own and waits for it. A cancellation between the end of that task
# and the end of the wait raises CancelledError, and what the body returned is lost, though its side effect has happened.
# A caller that makes such calls again, since they were cancelled, does their work twice.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet langchain-core==1.8.3
"$folder/env/bin/python" - <<'PY'
import asyncio
import threading
import time

from langchain_core.tools import tool

charged = []


async def charge_plainly(amount: int) -> str:
    time.sleep(0.2)
    charged.append(amount)
    return "charged"


@tool
async def charge(amount: int) -> str:
    """Charge an amount."""
    return await charge_plainly(amount)


async def cancel_at_its_end(call):
    task = asyncio.ensure_future(call)
    loop = asyncio.get_running_loop()
    # From another thread, as a person's stop comes, while the body holds the loop.
    threading.Timer(0.1, loop.call_soon_threadsafe, [task.cancel]).start()
    try:
        return await task
    except asyncio.CancelledError:
        return "cancelled"


async def main() -> None:
    plain = await cancel_at_its_end(charge_plainly(1))
    wrapped = await cancel_at_its_end(charge.ainvoke({"amount": 2}))
    print(f"coroutine: {plain}; tool: {wrapped}; charged: {charged}")
    assert (plain, wrapped, charged) == ("charged", "cancelled", [1, 2])


asyncio.run(main())
PY
