"""``python -m tests.others.show_pictures PROVIDER``: what a provider is sent of a picture and of a PDF, as JSON."""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from ensemble_notebook import Attachment, Ensemble, RunStatus, Task
from tests.others.ask_provider import Asker
from tests.others.provider_server import TEXT, TOKENS, ProviderServer
from tests.support.openai_server import Answer

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
PDF = b"%PDF-1.4\n1 0 obj << /Type /Pages >> 2 0 obj << /Type /Page >>\n%%EOF"


def list_blocks(value: Any) -> Iterator[dict[str, Any]]:
    """The innermost records of a request first."""
    if isinstance(value, dict):
        for each in value.values():
            yield from list_blocks(each)
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from list_blocks(each)


def show(model: Any, server: ProviderServer, photo: Attachment) -> dict[str, Any]:
    """Run a task with an attachment; the keys of the block that has its bytes, or why nothing was sent."""
    server.clear()
    server.default = Answer(TEXT, usage=TOKENS)
    task = Task.of("Look at {photo}, please")
    output = Ensemble(tasks=[task], llm=model, error_strategy="continue_on_error").run(photo=photo)
    encoded = b64encode(photo.data).decode()
    urlsafe = encoded.replace("+", "-").replace("/", "_")
    sent = [
        sorted(block)
        for request in server.requests
        for block in list_blocks(request.body)
        if any(isinstance(each, str) and (encoded in each or urlsafe in each) for each in block.values())
    ]
    fault = "" if output.status is RunStatus.COMPLETED else str(output.error or output.warnings)
    return {"sent": sent, "fault": fault, "requests": len(server.requests)}


def main() -> None:
    """Show both, and print what was sent."""
    provider = sys.argv[1]
    with ProviderServer() as server:
        model = Asker(provider, server.root).object
        attachments = {"picture": Attachment(PNG, "image/png"), "PDF": Attachment(PDF, "application/pdf", "scan.pdf")}
        print(json.dumps({kind: show(model, server, each) for kind, each in attachments.items()}))


if __name__ == "__main__":
    main()
