"""The histories of queues and transactions again, with a snapshot under way nearly all the time.

Each slice is one record, so many records are applied while one snapshot is written, and the
machine dies at any operation of it.
"""

import random
from typing import Any

import pytest

from goqueue.broker import machine_host
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.snapshot_directory import SnapshotDirectory
from goqueue.queue import snapshot
from tests.sim import test_queues_sim, test_transactions_sim


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logs of which snapshots were stored."""
    monkeypatch.setattr(machine_host, "SNAPSHOT_RECORDS", 3)
    monkeypatch.setattr(machine_host, "SNAPSHOT_GROWTH", 0.0)
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 1)
    monkeypatch.setattr(snapshot, "PART_ENTRIES_MAX", 1)
    found: list[str] = []
    store = PartitionJournal.store_snapshot

    async def note(journal: PartitionJournal, offset: Any, slices: Any) -> object:
        stored = await store(journal, offset, slices)
        found.append(journal.name)
        return stored

    store_file = SnapshotDirectory.store

    async def note_file(files: SnapshotDirectory, offset: Any, slices: Any) -> object:
        stored = await store_file(files, offset, slices)
        found.append("__metadata")
        return stored

    monkeypatch.setattr(PartitionJournal, "store_snapshot", note)
    monkeypatch.setattr(SnapshotDirectory, "store", note_file)
    return found


def test_queues_hold_what_was_answered_though_snapshots_are_cut_short(seed, stored):
    operations = test_queues_sim.play(seed, None)
    assert sum("ledger" in name for name in stored) > 1
    chance = random.Random(f"snapshots/{seed}")
    for again in (None, chance.randrange(1, 200), chance.randrange(1, 200)):
        test_queues_sim.play(seed, chance.randrange(1, operations), again)


def test_transactions_hold_what_was_answered_though_snapshots_are_cut_short(seed, stored):
    workload = test_transactions_sim.run(f"snapshots {seed}")
    assert not workload.problems
    assert not workload.history.anomalies()
    assert stored
