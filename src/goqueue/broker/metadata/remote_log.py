"""The consensus log at another node, which has the only vote: to follow, not to append to.

Entries come by long polls on a connection of their own, a snapshot in several parts.  While the
node that has the log cannot be reached, nothing comes: as with any engine that has lost its
majority.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from typing import Final

import structlog

from goqueue.broker.cluster.peer import Peer
from goqueue.cluster.consensus import (
    ConsensusLog,
    Entries,
    Index,
    Leadership,
    Member,
    Snapshot,
    Term,
)
from goqueue.model.errors import CorruptData, Fenced, GoQueueError, QuorumUnavailable
from goqueue.runtime import Clock
from goqueue.wire.node_messages import MetadataEnd, MetadataFollow, MetadataPart

WAIT_SECONDS: Final = 5.0  # of a long poll
ANSWER_SECONDS: Final = 2.0  # beyond that, and for requests that do not wait
RETRY_SECONDS: Final = 0.1
PART_BYTES: Final = 1024 * 1024  # of a snapshot

_log = structlog.get_logger("goqueue.cluster")


class RemoteLog:
    """See `ConsensusLog`; nobody leads here."""

    def __init__(self, questions: Peer, following: Peer, clock: Clock) -> None:
        self._questions = questions
        self._following = following  # its requests wait, so it has a connection of its own
        self._clock = clock

    @property
    def name(self) -> str:
        node_id = self._questions.node_id
        return "metadata of another node" if node_id is None else f"metadata of node {node_id}"

    @property
    def failed(self) -> str | None:
        return None

    async def close(self) -> None:
        self._following.close()
        self._questions.close()

    async def members(self) -> Sequence[Member]:
        node_id = self._questions.node_id
        problem = "" if self._questions.is_connected else "it does not answer"
        return [Member(f"node {'?' if node_id is None else node_id}", "", not problem, problem)]

    # --- what only the other node does ------------------------------------------------------------

    async def lead(self, after: Term | None = None) -> Leadership:
        raise self._refusal()

    async def term(self) -> Term:
        raise self._refusal()

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> Awaitable[None]:
        raise self._refusal()

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        raise self._refusal()

    def _refusal(self) -> Fenced:
        return Fenced("this node has no vote about the metadata: it follows another one")

    # --- reading ----------------------------------------------------------------------------------

    async def end(self) -> Index:
        try:
            return Index((await self._questions.ask(MetadataEnd(), ANSWER_SECONDS)).end)
        except GoQueueError as error:
            raise QuorumUnavailable(f"{self.name}: {error}") from error

    async def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        position = start
        parts: list[MetadataPart] = []  # of the snapshot that is being read
        while True:
            part = await self._next(position, parts)
            if part.is_snapshot:
                if parts and parts[0].index != part.index:
                    parts = []  # another one took its place, and this is its beginning
                parts.append(part)
                if part.is_last:
                    yield _whole(parts)
                    position, parts = Index(part.index), []
            elif part.values:
                parts = []
                entries = Entries(Index(part.index), part.values)
                position = entries.next
                yield entries

    async def _next(self, position: Index, parts: Sequence[MetadataPart]) -> MetadataPart:
        request = MetadataFollow(
            position,
            int(WAIT_SECONDS * 1000),
            parts[0].index if parts else -1,
            sum(len(each.values) for each in parts),
        )
        is_known = False
        while True:
            try:
                return await self._following.ask(request, WAIT_SECONDS + ANSWER_SECONDS)
            except GoQueueError as error:
                if not is_known:
                    _log.warning("metadata cannot be followed", log=self.name, problem=str(error))
                is_known = True
            await self._clock.sleep(RETRY_SECONDS)


def _whole(parts: Sequence[MetadataPart]) -> Snapshot:
    values = [value for part in parts for value in part.values]
    return Snapshot(Index(parts[0].index), values, parts[0].snapshot_bytes)


# --- the node that has the log --------------------------------------------------------------------


async def serve_follow(log: ConsensusLog, request: MetadataFollow) -> MetadataPart:
    """What there is for a follower, or nothing when nothing came in time."""
    if request.start > (end := await log.end()):
        raise CorruptData(
            f"a follower has seen {request.start} entries of metadata, and there are {end}: this"
            " is an older copy of the metadata"
        )
    async with contextlib.aclosing(log.follow(Index(request.start))) as found:
        try:
            async with asyncio.timeout(min(request.wait_ms / 1000, WAIT_SECONDS)):
                first = await anext(found)
        except TimeoutError:
            return MetadataPart(request.start, [])
    if isinstance(first, Entries):
        return MetadataPart(first.first, list(first.values))
    return _part_of(first, request)


def _part_of(snapshot: Snapshot, request: MetadataFollow) -> MetadataPart:
    """From where the follower is, if that is still the same snapshot."""
    skip = request.skip if request.snapshot == snapshot.index else 0
    some: list[bytes] = []
    size = 0
    for value in snapshot.values[skip:]:
        if some and size + len(value) > PART_BYTES:
            break
        some.append(value)
        size += len(value)
    is_last = skip + len(some) >= len(snapshot.values)
    return MetadataPart(
        snapshot.index,
        some,
        is_snapshot=True,
        is_last=is_last,
        snapshot_bytes=snapshot.bytes,
    )
