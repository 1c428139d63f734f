"""What tests of the run store share."""

import threading


def wait_for_store() -> None:
    """Until the thread that writes has closed the file."""
    for thread in threading.enumerate():
        if thread.name == "ensemble-store":
            thread.join(20)
