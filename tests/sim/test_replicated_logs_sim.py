"""Three logs of one partition, elections, power loss and rot: what was committed stays, everywhere.

The nodes are no more than their logs and the rules of `cluster.replication`: a step is a produce, a
sync, one fetch of a follower, a crash, an election.  So one story takes a fraction of a second,
and all that makes two logs differ is drawn from its seed.

Looked at after every step: each log has below its high watermark exactly what was committed there.
At every election: the new leader has all of it, and knows of its producers and transactions what
follows from its records.  At the end: all logs are the same.
"""

import random
from collections.abc import Iterator

from goqueue.cluster.replication import Diverged, find_divergence, truncation_offset
from goqueue.log import Log, open_log, truncation
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL, BatchHeader
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import settings
from tests.unit.log.replicated_logs import REPLICA, headers_of, state_of

STEPS = 250
NODES = range(3)
MIN_INSYNC = 2
NOW = Timestamp(1_750_000_000_000)
SETTINGS = settings()


class Node:
    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.disk = SimDisk(f"{seed}/{number}", cold_reads=0.0)
        self.log, _ = open_log(self.disk, "/log", SETTINGS, REPLICA)
        self.checked = Offset(0)  # what readers see below was compared since the last restart

    def sync(self) -> None:
        point = self.log.sync_point()
        self.log.run_sync(point)
        self.log.note_synced(point)

    def checkpoint(self) -> None:
        point = self.log.checkpoint_point()
        self.log.run_checkpoint(point)
        self.log.note_synced(point.sync)

    def restart(self, disk: SimDisk) -> bool:
        """True when something is missing that was synced."""
        self.disk = disk
        self.log, recovery = open_log(disk, "/log", SETTINGS, REPLICA)
        self.checked = Offset(0)
        return recovery.lost is not None

    def raise_watermark(self, offset: Offset) -> None:
        if offset > self.log.high_watermark:
            self.log.high_watermark = offset
            self.log.producers.settle(offset)

    def truncate(self, offset: Offset) -> None:
        point = self.log.checkpoint_point()
        cut = truncation.announce_truncation(self.disk, self.log, point, offset)
        truncation.finish(self.disk, self.log, cut, truncation.cut(self.disk, self.log, cut))


class Story:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes = [Node(number, seed) for number in NODES]
        self.leader = self.nodes[0]
        self.epoch = Epoch(0)
        self.epoch_start = Offset(0)
        self.isr = {0, 1, 2}
        self.synced = dict.fromkeys(NODES, Offset(0))  # as the leader knows, in its epoch
        self.committed: dict[Offset, int] = {}  # base offsets of batches, and their checksums
        self.truncations = self.losses = self.elections = 0
        self.lead(self.leader)

    # --- steps ------------------------------------------------------------------------------------

    def step(self) -> None:
        act = self.chance.choices(
            [self.produce, self.end, self.fetch, self.sync, self.crash, self.rot, self.elect],
            [30, 6, 40, 8, 3, 1, 2],
        )[0]
        act()
        self.check()

    def produce(self) -> None:
        producer = self.chance.randrange(-1, 3)
        log = self.leader.log
        known = log.producers.find(producer)
        sequence = known.batches[-1].last_sequence + 1 if known and known.batches else 0
        is_open = producer in log.producers.open_transactions
        in_transaction = producer >= 0 and (is_open or self.chance.random() < 0.4)
        records = [
            Record(0, NOW + self.chance.randrange(100), None, self.chance.randbytes(30))
            for _ in range(self.chance.randrange(1, 4))
        ]
        data = batches.encode(
            records,
            attributes=TRANSACTIONAL if in_transaction else 0,
            producer=(producer, 0, sequence) if producer >= 0 else (-1, -1, -1),
        )
        log.append(data, batches.verified_headers(data), epoch=self.epoch, now=NOW)

    def end(self) -> None:
        transactions = sorted(self.leader.log.producers.open_transactions)
        if transactions:
            producer, commits = self.chance.choice(transactions), self.chance.random() < 0.5
            marker = Marker(producer, 0, coordinator_epoch=0, commits=commits)
            self.leader.log.append_marker(marker, epoch=self.epoch, now=NOW)

    def fetch(self) -> None:
        follower = self.chance.choice([node for node in self.nodes if node is not self.leader])
        self.fetch_once(follower)

    def fetch_once(self, follower: Node) -> None:
        ours, theirs = follower.log, self.leader.log
        diverged = find_divergence(
            theirs.epochs,
            theirs.end_offset,
            fetch_offset=ours.end_offset,
            last_fetched_epoch=ours.last_epoch,
        )
        if diverged is not None:
            self.truncate(follower, diverged)
            return
        self.note_ack(follower)
        follower.raise_watermark(min(theirs.high_watermark, ours.synced_offset))
        if ours.end_offset < theirs.end_offset:
            size = self.chance.choice((1, 300, 2000))
            data = theirs.read(ours.end_offset, size, theirs.end_offset).data
            ours.append_as_follower(data, leader_epoch=self.epoch, now=NOW)
        if self.chance.random() < 0.7:
            follower.sync()
        if self.chance.random() < 0.1:
            follower.checkpoint()

    def truncate(self, follower: Node, diverged: Diverged) -> None:
        offset = truncation_offset(
            follower.log.epochs,
            follower.log.end_offset,
            diverged,
            high_watermark=follower.log.high_watermark,
            is_unclean=False,
        )
        assert isinstance(offset, int), f"nothing committed is given up: {offset}"
        follower.truncate(Offset(offset))
        self.truncations += 1

    def note_ack(self, follower: Node) -> None:
        """It asked for what follows, and its log does not differ."""
        number, synced = follower.number, follower.log.synced_offset
        self.synced[number] = synced
        log = self.leader.log
        if number not in self.isr and synced >= max(log.high_watermark, self.epoch_start):
            self.isr.add(number)
        self.advance()

    def sync(self) -> None:
        self.leader.sync()
        if self.chance.random() < 0.2:
            self.leader.checkpoint()
        self.advance()

    def advance(self) -> None:
        if len(self.isr) >= MIN_INSYNC:
            self.synced[self.leader.number] = self.leader.log.synced_offset
            self.leader.raise_watermark(min(self.synced[number] for number in self.isr))

    def crash(self) -> None:
        node = self.chance.choice(self.nodes)
        node.log.store_watermark()
        is_power = self.chance.random() < 0.7
        node.restart(node.disk.crash() if is_power else node.disk.kill())
        self.note_return(node)

    def rot(self) -> None:
        """A device forgets what it had synced."""
        node = self.chance.choice(self.nodes)
        headers = [h for h in headers_of(node.log) if h.base_offset < node.log.synced_offset]
        if node is self.leader or not headers or self.isr <= {node.number, self.leader.number}:
            return
        first = self.chance.choice(headers[-5:])
        log = node.log
        segment = next(s for s in reversed(log.segments) if s.base_offset <= first.base_offset)
        position = segment.surveyed_position(first.base_offset, log)
        for later in log.segments:
            if later.base_offset > segment.base_offset:
                node.disk.remove(later.log.path)
        disk = node.disk.kill()
        disk.open(segment.log.path).truncate(position)
        assert node.restart(disk), "it says that something is missing"
        self.losses += 1
        self.isr.discard(node.number)

    def note_return(self, node: Node) -> None:
        """Who restarts leaves the in-sync replicas while there are others; a leader is deposed."""
        others = self.isr - {node.number}
        if node is self.leader:
            self.lead(self.nodes[self.chance.choice(sorted(others))] if others else node)
        elif others:
            self.isr.discard(node.number)

    def elect(self) -> None:
        self.lead(self.nodes[self.chance.choice(sorted(self.isr))])

    def lead(self, node: Node) -> None:
        self.epoch = Epoch(self.epoch + 1)
        self.leader = node
        self.elections += 1
        node.log.store_epochs(node.log.begin_epoch(self.epoch))
        self.epoch_start = node.log.end_offset
        self.synced = dict.fromkeys(NODES, Offset(0))
        self.check_leader()

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        for node in (self.leader, *self.nodes):
            watermark = node.log.high_watermark
            for header in _headers(node.log, node.checked, watermark):
                if node is self.leader:
                    self.committed.setdefault(header.base_offset, header.crc)
                known = self.committed.get(header.base_offset)
                assert known == header.crc, f"node {node.number}, offset {header.base_offset}"
            node.checked = watermark

    def check_leader(self) -> None:
        have = {header.base_offset: header.crc for header in headers_of(self.leader.log)}
        for offset, crc in self.committed.items():
            assert have.get(offset) == crc, f"offset {offset} was committed"
        check_state(self.leader.log)

    def settle(self) -> None:
        """Nothing more goes wrong, and the last leader has written something."""
        self.produce()
        rounds = 0
        while {node.log.high_watermark for node in self.nodes} != {self.leader.log.end_offset}:
            for node in self.nodes:
                if node is not self.leader:
                    self.fetch_once(node)
                node.sync()
            self.advance()
            self.check()
            rounds += 1
            assert rounds < 1000, "they never agree"
        assert self.isr == {0, 1, 2}
        assert len({node.log.end_offset for node in self.nodes}) == 1
        states = [state_of(node.log) for node in self.nodes]
        assert states[0] == states[1] == states[2]
        check_state(self.leader.log)


def _headers(log: Log, start: Offset, limit: Offset) -> Iterator[BatchHeader]:
    while start < limit:
        chunk = log.read(start, 1 << 20, limit)
        yield from batches.verified_headers(chunk.data)
        start = chunk.next_offset


def check_state(log: Log) -> None:
    """What the log knows is what somebody learns who reads it from the start."""
    copy, _ = open_log(SimDisk(cold_reads=0.0), "/copy", SETTINGS, REPLICA)
    for segment in log.segments:
        data = segment.log.read(0, segment.size)
        copy.append_as_follower(data, leader_epoch=Epoch(10**6), now=NOW)
    mine, learned = state_of(log, times=False), state_of(copy, times=False)
    if log.epochs.latest != log.last_epoch:  # it leads, and has written nothing yet
        mine = mine._replace(epochs=mine.epochs[:-1])
    assert mine == learned


def test_what_was_committed_stays_whoever_leads_and_whatever_breaks(seed: int):
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
    story.settle()


def test_the_stories_have_all_that_can_go_wrong():
    stories = [Story(seed) for seed in range(4)]
    for story in stories:
        for _ in range(STEPS):
            story.step()
    assert sum(story.truncations for story in stories) > 5
    assert sum(story.losses for story in stories) > 1
    assert sum(story.elections for story in stories) > 10
    assert sum(len(story.committed) for story in stories) > 100
