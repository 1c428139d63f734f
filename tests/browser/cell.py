"""Cells that several tests run: a scripted team whose words are hostile markup, and a handler that sleeps."""

from typing import Final

LOAD: Final = "%load_ext ensemble_notebook"

HOSTILE: Final = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
TEAM: Final = f"""
from ensemble_notebook import Reply, ScriptedChatModel, ToolUse

HOSTILE = {HOSTILE!r}

def search(query: str) -> str:
    "Search the notes."
    return f"three notes about {{query}} {{HOSTILE}}"

def fail(task):
    raise ValueError(f"no {{HOSTILE}}")

model = ScriptedChatModel.match({{
    "## Task\\nFind": [ToolUse("search", {{"query": "tides"}}), Reply("The tide turns twice a day.")],
}}, default=f"A **brief**. ![tide](x) {{HOSTILE}}")
"""
REPORT: Final = """%%ensemble -o report
llm: model
agents:
  Researcher: {goal: Find facts, tools: [search]}
tasks:
  find: {description: Find facts about tides, agent: Researcher}
  brief: {description: Write a brief, context: [find]}
"""

# It sleeps until the test lets it wake, so that no test waits longer than it must.
SLEEPER: Final = """
import asyncio
from pathlib import Path
from ensemble_notebook import ScriptedChatModel

async def sleep(task):
    while not Path(f"{task.name}.wake").exists():
        await asyncio.sleep(0.05)
    return f"{task.name} is over"

model = ScriptedChatModel(default="There is a bed by the window.")
"""
NIGHT: Final = """%%ensemble -o night
llm: model
tasks:
  find: Find a bed
  NAP: {description: Sleep long, handler: sleep, context: [find]}
  wake: {description: Wake up, context: [NAP]}
"""
