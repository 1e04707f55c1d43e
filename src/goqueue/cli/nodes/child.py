"""A node that a supervisor has started: `python -m goqueue.cli.nodes.child server …`.

The supervisor holds the other end of its standard input.  When that ends, the supervisor is gone,
even if it was killed: then the node stops in good order, rather than hold its ports and its data
directory against the next start.
"""

import os
import signal
import threading
from typing import Final

from goqueue.cli.main import main
from goqueue.runtime.service_manager import note_supervised

STANDARD_INPUT: Final = 0


def stop_after(handle: int) -> None:
    """Wait for the end of what can be read there, then ask this process to stop."""
    while os.read(handle, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)  # not SIGTERM: all nodes stop now, so none can hand over


if __name__ == "__main__":
    threading.Thread(target=stop_after, args=(STANDARD_INPUT,), daemon=True).start()
    note_supervised()
    main()
