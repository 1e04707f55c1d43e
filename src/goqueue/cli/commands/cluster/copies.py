"""Waiting for replicas that move: a bar at a terminal, a line of JSON at each look for programs."""

import sys
import time
from typing import TYPE_CHECKING, Final

from goqueue.cli.output import for_people, line
from goqueue.cli.progress import copying

if TYPE_CHECKING:
    from goqueue.api.cluster import ReassignmentStatus
    from goqueue.client import Client

LOOK_SECONDS: Final = 0.5


def wait_for_moves(client: "Client", found: "ReassignmentStatus") -> None:
    """Return when nothing moves any more; ctrl-c leaves, and the moves go on."""
    largest = found.bytes_left
    with copying() as show:
        while True:
            found = client.reassignments()
            largest = max(largest, found.bytes_left)
            show(largest - found.bytes_left, largest, found.bytes_per_sec, len(found.partitions))
            if not for_people():
                sys.stdout.write(line(found))
                sys.stdout.flush()
            if not found.partitions:
                break
            time.sleep(LOOK_SECONDS)
    if for_people():
        sys.stdout.write("nothing moves any more\n")
