"""Damage to one file of a node that is down; each verb tells what it did."""

import contextlib
import random

from goqueue.model.errors import GoQueueError
from goqueue.testing.sim import SimDisk

DATA = "/data"


def flip_bit(disk: SimDisk, draw: random.Random) -> str:
    path = draw.choice(files_below(disk, DATA))
    position = draw.randrange(disk.size(path))
    disk.flip_bit(path, position)
    return f"{path} is damaged at {position}"


def cut_file(disk: SimDisk, draw: random.Random) -> str:
    path = draw.choice(files_below(disk, DATA))
    size = draw.randrange(disk.size(path))
    file = disk.open(path)
    file.truncate(size)
    file.close()
    return f"{path} ends at {size}"


def files_below(disk: SimDisk, path: str) -> list[str]:
    """In order: a seed must repeat what is damaged."""
    found: list[str] = []
    for name in disk.list_directory(path):
        each = f"{path}/{name}"
        with contextlib.suppress(GoQueueError, OSError):  # it is a directory
            if disk.read_file(each):
                found.append(each)
        found += files_below(disk, each)
    return found
