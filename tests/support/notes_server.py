"""The server of `mcp_servers/library.py`, for tests of what is read of an MCP server."""

from __future__ import annotations

from pathlib import Path

from ensemble_notebook import McpToolbox, mcp_tools

SERVERS = Path(__file__).parent / "mcp_servers"


class NotesServer:
    """A server whose ``notes://today`` are those of a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "notes.md"
        self.write("buy milk")
        self.toolbox: McpToolbox = mcp_tools(["python", str(SERVERS / "library.py"), str(self._file)])
        self.today = self.toolbox.resource("notes://today")
        self.of_day = self.toolbox.resource("notes://days/{day}")

    def write(self, text: str) -> None:
        """Have it say this from now on."""
        self._file.write_text(text)

    @property
    def asked(self) -> list[str]:
        """What it was asked for so far."""
        noted = Path(f"{self._file}.asked")
        return noted.read_text().split() if noted.exists() else []
