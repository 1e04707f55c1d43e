"""The consensus log on etcd, for clusters of several machines.

Keys, all below a prefix; the values are framed and checksummed as small files are (`log.framed`):

    term                   the newest term, and a random text of who took it
    log/{index:020}        a batch: the entries of one or more appends; the index is the first one's
    piece/{index:020}/{term:020}/{n:06}       a piece of a batch that is too large for one request
    snapshot               up to which index, and where its parts are
    part/{index:020}/{term:020}/{n:06}        a part of a snapshot, at most 512 KB

Every write is one transaction that compares first:

    lead      `term` is what was read                       ──> put `term` + 1
    append    `term` is mine, the batch before is there,
              no batch is here                              ──> put the batch
    piece     `term` is mine                                ──> put the piece
    snapshot  `term` is mine, `snapshot` is what was read   ──> put `snapshot`; delete batches below
                                                                it but the last, and older parts

An append that is too large for one request is put in pieces first.  They count once the batch that
names them is there, so whoever reads sees all of it or nothing.  Pieces without a batch go with the
next snapshot.

No leases: a lease of etcd lasts whole seconds and starts again when etcd elects a leader.

An append that was not answered is sent again, to the next endpoint.  That is safe: if the batch is
there already, with my term, it is the same one, since a leader offers one batch for a place.  A
copy that the network delivers late changes nothing either, even when a snapshot has removed its
batch meanwhile: the batch before it was removed first, so the comparison fails.  (For the first
batch of all, `snapshot` must not be there.)

A follower lists what there is, then watches from that revision on.  It lists again when the watch
breaks, was compacted away, or brings nothing for some seconds: a member of etcd that is cut off
from the others is silent, and a list is answered only with a quorum.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.cluster.consensus.consensus_log import (
    Entries,
    Index,
    Leadership,
    Member,
    Snapshot,
    Term,
)
from goqueue.cluster.consensus.etcd_client import (
    EtcdClient,
    EtcdSettings,
    Json,
    KeyValue,
    delete,
    has_value,
    is_absent,
    is_there,
    last,
    put,
    ranges,
    read,
)
from goqueue.log.framed import frame, unframe
from goqueue.model.errors import Fenced, GoQueueError, PolicyViolation, QuorumUnavailable, Uncertain
from goqueue.runtime import Clock, Random

__all__ = ["EtcdLog", "EtcdSettings"]

BATCH_BYTES_MAX: Final = 1024 * 1024  # etcd takes requests of 1.5 MiB, unless told otherwise
APPEND_BYTES_MAX: Final = 64 * 1024 * 1024  # in pieces; etcd keeps 2 GiB, unless told otherwise
PART_BYTES: Final = 512 * 1024
LIST_BATCHES: Final = 100  # a request
RETRY_SECONDS: Final = 0.2
VERSION: Final = 1  # of the values
NO_TERM: Final = Term(0)

T = TypeVar("T")


class TermTaken(msgspec.Struct, frozen=True, array_like=True):
    term: Term
    by: bytes


class Batch(msgspec.Struct, frozen=True, array_like=True):
    term: Term
    values: list[bytes]

    @property
    def count(self) -> int:
        return len(self.values)


class LargeBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch whose values, as one array of MessagePack, are in pieces."""

    term: Term
    count: int
    pieces: int


class SnapshotStored(msgspec.Struct, frozen=True, array_like=True):
    index: Index
    term: Term
    parts: int
    bytes: int


class _Offer:
    """An append on its way."""

    def __init__(self, at: Index, values: Sequence[bytes], size: int) -> None:
        self.at = at
        self.values = values
        self.size = size
        self.is_committed = False
        self.error: GoQueueError | None = None


class EtcdLog:
    """See `ConsensusLog`."""

    def __init__(self, settings: EtcdSettings, clock: Clock, random: Random) -> None:
        self._etcd = EtcdClient(settings, clock)
        self._clock = clock
        self._random = random
        self._keys = _Keys(settings.prefix)
        self._taken: TermTaken | None = None  # while this client leads
        self._last: Index | None = None  # batch of the log, by its first index
        self._next = Index(0)  # of the next append; those on their way are below
        self._offers: deque[_Offer] = deque()
        self._sending = asyncio.Lock()

    @property
    def name(self) -> str:
        return f"etcd {self._keys.prefix}"

    @property
    def failed(self) -> str | None:
        return None

    async def close(self) -> None:
        await self._etcd.close()

    async def members(self) -> Sequence[Member]:
        with _only_reading():
            return await self._etcd.members()

    # --- leading ----------------------------------------------------------------------------------

    async def lead(self, after: Term | None = None) -> Leadership:
        self._end_term(Fenced("this node took a newer term"))
        with _only_reading():  # a term that was taken without an answer is nobody's
            while True:
                before = await self._read_term()
                newest = before[0].term if before else Term(0)
                if after is not None and newest != after:
                    raise Fenced(f"another node has taken term {newest}")
                taken = TermTaken(Term(newest + 1), self._random.bytes(16))
                if await self._take(before, taken):
                    break
            tail = await self._tail()
        self._last, self._next, self._taken = tail.last, tail.end, taken
        return Leadership(taken.term, tail.end, tail.has_snapshot)

    async def term(self) -> Term:
        with _only_reading():
            found = await self._read_term()
        return found[0].term if found else Term(0)

    async def _take(self, before: tuple[TermTaken, bytes] | None, taken: TermTaken) -> bool:
        key = self._keys.term
        answer = await self._etcd.transaction(
            [has_value(key, before[1]) if before else is_absent(key)],
            [put(key, frame(b"T", VERSION, taken))],
        )
        if answer.get("succeeded"):
            return True
        now = await self._read_term()  # sent twice, the second finds what the first one did
        return now is not None and now[0] == taken

    async def _read_term(self) -> tuple[TermTaken, bytes] | None:
        (kvs,) = await self._read(read(self._keys.term))
        return (_content(kvs[0], b"T", TermTaken), kvs[0].value) if kvs else None

    async def end(self) -> Index:
        with _only_reading():
            return (await self._tail()).end

    async def _tail(self) -> "_Tail":
        keys = self._keys
        batches, snapshots = await self._read(last(keys.log, keys.log_end), read(keys.snapshot))
        if batches:
            first = keys.index_of(batches[0])
            end = Index(first + _batch(batches[0]).count)
            return _Tail(first, end, bool(snapshots))
        if snapshots:
            raise QuorumUnavailable(
                f"etcd has a snapshot and no log below {keys.prefix!r}: somebody removed keys;"
                " restore etcd from its own backup"
            )
        return _Tail(None, Index(0), False)

    # --- appending --------------------------------------------------------------------------------

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> Awaitable[None]:
        size = sum(map(len, values))
        if size > APPEND_BYTES_MAX:
            raise PolicyViolation(
                f"a change of {size} bytes of metadata; at most {APPEND_BYTES_MAX} go into etcd"
            )
        self._check_term(term)
        assert at == self._next, f"append at {at}, the log ends at {self._next}"
        self._next = Index(at + len(values))
        offer = _Offer(at, values, size)
        self._offers.append(offer)
        return self._commit(offer)

    async def _commit(self, offer: _Offer) -> None:
        async with self._sending:
            while not offer.is_committed and offer.error is None:
                await self._send(self._merge())
        if offer.error is not None:
            raise offer.error

    def _merge(self) -> list[_Offer]:
        """The oldest one, and those behind it that fit in the same batch."""
        some = [self._offers.popleft()]
        size = some[0].size
        while self._offers and size + self._offers[0].size <= BATCH_BYTES_MAX:
            size += self._offers[0].size
            some.append(self._offers.popleft())
        return some

    async def _send(self, offers: list[_Offer]) -> None:
        error: GoQueueError = Uncertain("the append was cancelled on its way")
        try:
            await self._put_batch(offers)
            for offer in offers:
                offer.is_committed = True
        except GoQueueError as problem:
            error = problem
        finally:
            if not offers[0].is_committed:
                for offer in offers:
                    offer.error = error
                self._end_term(Fenced(f"not written, an append before it failed: {error}"))

    async def _put_batch(self, offers: list[_Offer]) -> None:
        assert self._taken is not None, "offers end with their term"
        keys, taken, here = self._keys, self._taken, self._keys.batch(offers[0].at)
        value = await self._write_pieces(taken, offers)
        follows = is_absent(keys.snapshot)
        if self._last is not None:
            follows = is_there(keys.batch(self._last))
        answer = await self._etcd.transaction(
            [self._is_mine(taken), is_absent(here), follows],
            [put(here, value)],
            [{"request_range": read(here)}, {"request_range": read(keys.snapshot)}],
        )
        if not answer.get("succeeded"):
            self._look_for(taken.term, offers[0].at, *ranges(answer))
        self._last = offers[0].at

    async def _write_pieces(self, taken: TermTaken, offers: list[_Offer]) -> bytes:
        """The value of the batch, which may be about pieces that are there by now."""
        values = [value for offer in offers for value in offer.values]
        if sum(offer.size for offer in offers) <= BATCH_BYTES_MAX:
            return frame(b"B", VERSION, Batch(taken.term, values))
        data = msgspec.msgpack.encode(values)
        starts = range(0, len(data), PART_BYTES)
        for number, start in enumerate(starts):
            key = self._keys.piece(offers[0].at, taken.term, number)
            await self._put_part(taken, key, frame(b"Q", VERSION, data[start : start + PART_BYTES]))
        return frame(b"L", VERSION, LargeBatch(taken.term, len(values), len(starts)))

    def _look_for(
        self, term: Term, at: Index, batches: Sequence[KeyValue], snapshots: Sequence[KeyValue]
    ) -> None:
        """A try before this one may have written the batch; raises when it did not."""
        if batches and _batch(batches[0]).term == term:
            return
        if snapshots and _content(snapshots[0], b"N", SnapshotStored).index > at:
            raise Uncertain(f"term {term} has ended, and a snapshot stands for index {at}")
        raise Fenced(f"term {term} has ended: another node leads")

    def _is_mine(self, taken: TermTaken) -> Json:
        return has_value(self._keys.term, frame(b"T", VERSION, taken))

    def _check_term(self, term: Term) -> TermTaken:
        if self._taken is None or term != self._taken.term:
            raise Fenced(f"term {term} has ended")
        return self._taken

    def _end_term(self, reason: Fenced) -> None:
        self._taken = None
        for offer in self._offers:
            offer.error = reason
        self._offers.clear()

    # --- following --------------------------------------------------------------------------------

    async def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        position = start
        while True:
            try:
                listed = await self._list(position)
            except (QuorumUnavailable, Uncertain):
                await self._clock.sleep(RETRY_SECONDS)
                continue
            for each in listed.found:
                position = each.index if isinstance(each, Snapshot) else each.next
                yield each
            if listed.is_all:
                async with contextlib.aclosing(self._watch(position, listed.revision)) as news:
                    async for entries in news:
                        position = entries.next
                        yield entries

    async def _list(self, position: Index) -> "_Listed":
        """What there is from `position` on, or the first of it."""
        keys = self._keys
        answer = await self._etcd.read(
            read(keys.snapshot),
            last(keys.log, keys.batch(position)),  # it may reach beyond
            read(keys.batch(position), keys.log_end, limit=str(LIST_BATCHES)),
        )
        revision = int(answer["header"]["revision"])
        snapshots, before, batches = ranges(answer)
        entries = await self._entries([*before, *batches], position, revision)
        is_all = len(batches) < LIST_BATCHES
        stored = _content(snapshots[0], b"N", SnapshotStored) if snapshots else None
        is_gone = not entries or entries[0].first > position
        if stored is None or stored.index <= position or not (is_gone or position == 0):
            return _Listed(revision, entries, is_all)
        snapshot = await self._read_snapshot(stored, revision)
        entries = await self._entries([*before, *batches], snapshot.index, revision)
        return _Listed(revision, [snapshot, *entries], is_all)

    async def _entries(
        self, batches: Iterable[KeyValue], position: Index, revision: int = 0
    ) -> list[Entries]:
        """Those from `position` on; as of the revision, or (0) of now."""
        entries = []
        for kv in batches:
            first, batch = self._keys.index_of(kv), _batch(kv)
            skipped = max(0, position - first)
            if skipped < batch.count:
                values = await self._values(first, batch, revision)
                entries.append(Entries(Index(first + skipped), values[skipped:]))
        return entries

    async def _values(self, first: Index, batch: Batch | LargeBatch, revision: int) -> list[bytes]:
        if isinstance(batch, Batch):
            return batch.values
        keys = [self._keys.piece(first, batch.term, number) for number in range(batch.pieces)]
        pieces = [await self._read_part(key, b"Q", bytes, revision) for key in keys]
        return msgspec.msgpack.decode(b"".join(pieces), type=list[bytes])

    async def _watch(self, position: Index, revision: int) -> AsyncGenerator[Entries, None]:
        request = read(self._keys.log, self._keys.log_end, start_revision=str(revision + 1))
        async with contextlib.aclosing(self._etcd.watch(request)) as news:
            async for batches in news:
                try:
                    found = await self._entries(batches, position)
                except (QuorumUnavailable, Uncertain):
                    return  # a piece could not be read: list again
                for entries in found:
                    if entries.first != position:
                        return  # something was missed: list again
                    position = entries.next
                    yield entries

    # --- snapshots --------------------------------------------------------------------------------

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        taken = self._check_term(term)
        parts = size = 0
        for values in _parts(slices):
            data = frame(b"P", VERSION, values)
            await self._put_part(taken, self._keys.part(at, term, parts), data)
            parts, size = parts + 1, size + len(data)
        await self._flush(term)
        await self._put_snapshot(taken, SnapshotStored(at, term, parts, size))
        return size

    async def _put_part(self, taken: TermTaken, key: bytes, data: bytes) -> None:
        answer = await self._etcd.transaction([self._is_mine(taken)], [put(key, data)])
        if not answer.get("succeeded"):
            raise Fenced(f"term {taken.term} has ended: another node leads")

    async def _flush(self, term: Term) -> None:
        """Return when all appends so far are committed."""
        async with self._sending:
            while self._offers:
                await self._send(self._merge())
        self._check_term(term)

    async def _put_snapshot(self, taken: TermTaken, stored: SnapshotStored) -> None:
        keys, value = self._keys, frame(b"N", VERSION, stored)
        before, kept = await self._read(
            read(keys.snapshot), last(keys.log, keys.batch(stored.index), keys_only=True)
        )
        answer = await self._etcd.transaction(
            # Compared with the one before, a copy that arrives late does not replace a newer one.
            [
                self._is_mine(taken),
                has_value(keys.snapshot, before[0].value) if before else is_absent(keys.snapshot),
            ],
            [
                put(keys.snapshot, value),
                *(delete(keys.log, each.key) for each in kept),
                *(delete(keys.pieces, keys.piece(keys.index_of(each))) for each in kept),
                delete(keys.parts, keys.part(stored.index, stored.term, 0)),
                delete(keys.part(stored.index, stored.term, stored.parts), keys.parts_end),
            ],
            [{"request_range": read(keys.snapshot)}],
        )
        if not answer.get("succeeded"):
            (now,) = ranges(answer)
            if not now or now[0].value != value:  # sent twice, it may be there
                raise Fenced(f"term {taken.term} has ended: another node leads")

    async def _read_snapshot(self, stored: SnapshotStored, revision: int) -> Snapshot:
        """As of the revision at which it was found: a newer one may take its place meanwhile."""
        values: list[bytes] = []
        for number in range(stored.parts):
            key = self._keys.part(stored.index, stored.term, number)
            values += await self._read_part(key, b"P", list[bytes], revision)
        return Snapshot(stored.index, values, stored.bytes)

    async def _read_part(self, key: bytes, kind: bytes, content_type: type[T], revision: int) -> T:
        (kvs,) = await self._read(read(key, revision=str(revision)))
        if not kvs:
            raise QuorumUnavailable(f"etcd key {key.decode()} is gone")
        return _content(kvs[0], kind, content_type)

    async def _read(self, *requests: Json) -> list[list[KeyValue]]:
        return ranges(await self._etcd.read(*requests))


class _Tail(msgspec.Struct, frozen=True):
    last: Index | None  # batch, by its first index
    end: Index
    has_snapshot: bool


class _Listed(msgspec.Struct, frozen=True):
    revision: int
    found: Sequence[Snapshot | Entries]
    is_all: bool


class _Keys:
    """Where things are.  The end of a range is its prefix with the last character raised."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        root = prefix.encode() + b"/"
        self.term = root + b"term"
        self.log, self.log_end = root + b"log/", root + b"log0"
        self.pieces = root + b"piece/"
        self.snapshot = root + b"snapshot"
        self.parts, self.parts_end = root + b"part/", root + b"part0"

    def batch(self, first: Index) -> bytes:
        return self.log + b"%020d" % first

    def piece(self, first: Index, term: Term = NO_TERM, number: int = 0) -> bytes:
        return self.pieces + b"%020d/%020d/%06d" % (first, term, number)

    def part(self, index: Index, term: Term, number: int) -> bytes:
        return self.parts + b"%020d/%020d/%06d" % (index, term, number)

    def index_of(self, batch: KeyValue) -> Index:
        return Index(int(batch.key.removeprefix(self.log)))


def _batch(kv: KeyValue) -> Batch | LargeBatch:
    if kv.value[2:3] == b"L":  # the kind, see `log.framed`
        return _content(kv, b"L", LargeBatch)
    return _content(kv, b"B", Batch)


def _content(kv: KeyValue, kind: bytes, content_type: type[T]) -> T:
    return unframe(kv.value, kind, VERSION, content_type, f"etcd key {kv.key.decode()}")


def _parts(slices: Iterable[Sequence[bytes]]) -> Iterator[list[bytes]]:
    """At least one; each of at most `PART_BYTES`, unless a single value is larger."""
    some: list[bytes] = []
    size = 0
    for values in slices:
        for value in values:
            if some and size + len(value) > PART_BYTES:
                yield some
                some, size = [], 0
            some.append(value)
            size += len(value)
    yield some


@contextlib.contextmanager
def _only_reading() -> Iterator[None]:
    """Whatever etcd heard, nobody's entries depend on it."""
    try:
        yield
    except Uncertain as error:
        raise QuorumUnavailable(str(error)) from error
