"""Damaged timers: the doctor repairs them, and no delayed message is lost."""

import asyncio
from pathlib import Path

from goqueue.broker.doctor.examination import Examination, examine
from goqueue.broker.doctor.timers import replay_timers
from goqueue.client import Message
from goqueue.embedding import embedded
from goqueue.model.config import Config
from goqueue.model.ids import Timestamp
from goqueue.runtime import real_environment
from tests.unit.broker.brokers import values_in

TOPIC = "jobs"
NOW = Timestamp(1_800_000_000_000)


async def fill(directory: Path) -> None:
    """Six that wait, of which one was cancelled at last; each note is a batch of its own."""
    async with embedded(directory, topics={"partitions": 1}) as node:
        await node.create_topic(TOPIC)
        broker = node.broker
        for number in range(6):
            await node.publish(TOPIC, Message(f"m{number}", delay_ms=3_600_000))
            line = broker.delays.lines.find(TOPIC, 0)
            assert line is not None
            await line.index()
            line.timers.write_deferred()
            await line.timers.wait_settled()
        await broker.delays.admin.cancel(TOPIC, 0, 5)


def look(data: Path, *, repairs: bool = False) -> Examination:
    disk, config = real_environment().disk, Config(data_dir=str(data))
    try:
        return examine(disk, config, NOW, repairs=repairs, aside=f"{data}/damaged/1")
    finally:
        disk.close()


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_a_directory_with_delays_is_in_good_order(tmp_path: Path):
    asyncio.run(fill(tmp_path))
    found = look(tmp_path)
    assert not found.has_problems
    texts = [(each.check, each.subject, each.text) for each in found.findings]
    assert ("delays", TOPIC, "1 sound delay log") in texts
    disk = real_environment().disk
    timers = replay_timers(disk, str(tmp_path), TOPIC, 0, NOW)
    assert timers is not None
    assert timers.machine.pending == 5  # type: ignore[attr-defined]
    disk.close()


def test_timers_are_repaired_and_what_waits_is_read_from_the_delay_log(tmp_path: Path):
    asyncio.run(fill(tmp_path))
    (log,) = sorted((tmp_path / f"logs/{TOPIC}/0/timers").glob("*.log"))
    damage(log, len(log.read_bytes()) // 2)
    problems = [each for each in look(tmp_path).findings if each.status == "problem"]
    assert [each.check for each in problems] == ["timers"]
    assert "may come once more" in problems[0].text
    assert not look(tmp_path, repairs=True).has_problems
    assert not look(tmp_path).has_problems

    async def list_offsets() -> list[int]:
        async with embedded(tmp_path) as node:
            page = await node.broker.delays.admin.page(
                TOPIC, after=(-1, -1, -1), limit=10, missing={}
            )
            assert await values_in(await node.broker.partition(TOPIC, 0)) == []
            return [each.offset for each in page]

    assert asyncio.run(list_offsets()) == [0, 1, 2, 3, 4]


def test_a_damaged_delay_log_is_a_problem(tmp_path: Path):
    asyncio.run(fill(tmp_path))
    (log,) = sorted((tmp_path / f"logs/{TOPIC}/0/delays").glob("*.log"))
    damage(log, len(log.read_bytes()) // 2)
    problems = [each for each in look(tmp_path).findings if each.status == "problem"]
    assert [each.check for each in problems] == ["delays"]
    assert "restore a backup" in problems[0].text
