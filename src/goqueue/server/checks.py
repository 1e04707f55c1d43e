"""What `/readyz` checks besides the listeners.

A check that fails makes the server not ready when nothing can be written through it: the disk has
no room, or one of its own logs is read-only (without `__groups` no offset is committed).  A
partition of a topic that is read-only, or damaged, is told as a warning: all others are served.  So
are dead letters that cannot be written, and metadata that this node cannot change.
"""

from typing import Final

from goqueue.broker import Broker
from goqueue.model.errors import DiskFull
from goqueue.model.names import is_internal
from goqueue.server.http.asgi.readiness import Health

NAMED_MAX: Final = 5  # partitions that a check names


def add_checks(health: Health, broker: Broker) -> None:
    health.add_check("disk", lambda: _disk(broker))
    health.add_check("internal_logs", lambda: _internal_logs(broker))
    health.add_check("controller", lambda: _controller(broker), is_critical=False)
    health.add_check("partitions", lambda: _partitions(broker), is_critical=False)
    health.add_check("dead_letters", lambda: _dead_letters(broker), is_critical=False)
    health.add_check("recovery", lambda: _recovery(broker), is_critical=False)


def _disk(broker: Broker) -> str | None:
    try:
        broker.partitions.room.refuse_if_full()
    except DiskFull as error:
        return str(error)
    return None


def _internal_logs(broker: Broker) -> str | None:
    failed = [each for each in broker.partitions.read_only() if is_internal(each.topic)]
    if not failed:
        return None
    reasons = "; ".join(f"{each.topic} is read-only: {each.log.failed}" for each in failed)
    return f"{reasons}: see to the disk and restart the server"


def _controller(broker: Broker) -> str | None:
    if broker.controller.is_leading or broker.partitions.read_only():
        return None
    if broker.cluster.elsewhere is not None:
        is_heard = broker.cluster.is_heard
        return None if is_heard else "the node that keeps the metadata does not hear this one"
    return f"topics cannot be created or changed: {broker.controller.journal.failed}"


def _partitions(broker: Broker) -> str | None:
    failed = [str(each) for each in broker.partitions.read_only() if not is_internal(each.topic)]
    damaged = [str(each) for each in broker.partitions.logs() if each.log.damaged]
    problems = [
        f"{what}: {', '.join(names[:NAMED_MAX])}{', …' if len(names) > NAMED_MAX else ''}"
        for what, names in (("read-only", failed), ("with damaged batches", damaged))
        if names
    ]
    return "; ".join(problems) or None


def _dead_letters(broker: Broker) -> str | None:
    found = broker.queues.unwritten_dead_letters()
    problems = [
        f"{each.count} of {each.where.topic}-{each.where.partition} (group {each.where.group_id})"
        f" cannot be written: {each.problem}"
        for each in found[:NAMED_MAX]
    ]
    return "; ".join(problems) or None


def _recovery(broker: Broker) -> str | None:
    count = broker.partitions.opening_count
    return f"{count} partitions are being opened and verified" if count else None
