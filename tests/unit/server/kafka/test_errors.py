"""Every error has a code, so that none of them reaches a client as a closed connection."""

import importlib
import pkgutil
from collections.abc import Iterator

import goqueue
from goqueue.groups.errors import GroupError
from goqueue.model.errors import GoQueueError
from goqueue.server.kafka.errors import KAFKA_CODE

ABSTRACT = {GroupError}
PACKAGES = ("model", "wire", "log", "cluster", "groups", "broker")


def _has_code(error: type[GoQueueError]) -> bool:
    """Its own, or that of the error it is a kind of."""
    return any(kind in KAFKA_CODE for kind in error.__mro__)


def _all_errors(base: type[GoQueueError] = GoQueueError) -> Iterator[type[GoQueueError]]:
    for error in base.__subclasses__():
        yield error
        yield from _all_errors(error)


def test_every_error_that_a_broker_raises_has_a_kafka_code():
    for package in PACKAGES:
        folder = importlib.import_module(f"goqueue.{package}")
        for module in pkgutil.walk_packages(folder.__path__, f"{goqueue.__name__}.{package}."):
            importlib.import_module(module.name)
    missing = {
        error.__name__
        for error in _all_errors()
        if not _has_code(error)
        and error not in ABSTRACT
        and error.__module__.split(".")[1] in PACKAGES
    }
    assert not missing, f"add them to KAFKA_CODE in server/kafka/errors.py: {sorted(missing)}"
