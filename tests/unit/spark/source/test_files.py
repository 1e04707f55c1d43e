"""Reading the server's files in its place."""

import os
import struct

import pytest
from crc32c import crc32c

from goqueue.client.errors import ClientError
from goqueue.log.sparse_index import HEAD_BYTES, OFFSET_INDEX
from goqueue.model.batch import TRANSACTIONAL, encode
from goqueue.model.ids import TopicPartition
from goqueue.model.record import Record
from goqueue.spark.source.files import ReadOnlyFile
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan

PAIR, CRC = OFFSET_INDEX.entry, struct.Struct(">I")
NOBODY = "127.0.0.1:1"  # where no server is: whoever asks it fails
SEGMENT_BYTES = 16 * 1024


@pytest.fixture
def segmented(client, topic):
    """A topic of one partition with many segments."""
    name = f"{topic}-segmented"
    settings = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
    client.create_topic(name, partitions=1, settings=settings)
    return name


@pytest.fixture
def rows(broker):
    """`rows(topic, start, end)`: offset and value of each row, from the files."""

    def rows(topic, start, end, *, server=NOBODY, log_dir=None, **options):
        read_plan = ReadPlan(
            bootstrap=server,
            columns=("offset", "value"),
            log_dir=str(log_dir or broker.data_dir),
            timeout_ms=1 if server == NOBODY else 30_000,
            **options,
        )
        batches = read(read_plan, (OffsetRange(topic, 0, start, end),))
        return [(row["offset"], row["value"].decode()) for b in batches for row in b.to_pylist()]

    return rows


def fill_segments(fill, topic, batches=100):
    """Two records of 500 bytes a batch; gives what is expected of a reader."""
    for number in range(batches):
        fill(topic, 0, f"{number}a".ljust(500), f"{number}b".ljust(500))
    return [
        (2 * number + index, f"{number}{letter}".ljust(500))
        for number in range(batches)
        for index, letter in enumerate("ab")
    ]


def test_a_range_over_many_segments_is_read_without_the_server(rows, fill, broker, segmented):
    expected = fill_segments(fill, segmented)
    folder = broker.data_dir / "logs" / segmented / "0"
    assert len(list(folder.glob("*.log"))) > 3
    assert rows(segmented, 0, 200) == expected
    for start, end in [(0, 1), (1, 200), (77, 131), (199, 200)]:
        assert rows(segmented, start, end) == expected[start:end]
    assert rows(segmented, 3, 190, fetch_bytes=100) == expected[3:190], "a batch at a time"
    assert rows(segmented, 0, 200, log_dir=broker.data_dir / "logs") == expected


def test_nothing_of_the_servers_is_touched(rows, fill, broker, topic, tmp_path):
    fill(topic, 0, "a")
    folder = broker.data_dir / "logs" / topic / "0"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert rows(topic, 0, 1) == [(0, "a")]
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    path = tmp_path / "file"
    path.touch()
    file = ReadOnlyFile(str(path))
    for change in (lambda: file.append(b"x"), lambda: file.truncate(0), file.sync):
        with pytest.raises(AssertionError):
            change()
    file.close()


def test_aborted_records_are_left_out(rows, fill, client, topic):
    fill(topic, 0, "before")
    producer = client.init_producer("writer-of-files")
    fill(
        topic,
        0,
        "aborted",
        producer=(producer.producer_id, producer.epoch, 0),
        attributes=TRANSACTIONAL,
        transaction="writer-of-files",
    )
    client.init_producer("writer-of-files")
    fill(topic, 0, "after")
    assert rows(topic, 0, 4) == [(0, "before"), (3, "after")]
    assert len(rows(topic, 0, 4, read_committed=False)) == 3


@pytest.mark.parametrize("missing", ["log", "index", "middle", "everything"])
def test_what_the_files_do_not_have_the_server_is_asked_for(
    rows, fill, broker, segmented, tmp_path, missing
):
    """A copy of the files with something gone from it, as a removal or a swap might leave it."""
    expected = fill_segments(fill, segmented)
    source = broker.data_dir / "logs" / segmented / "0"
    copy = tmp_path / segmented / "0"
    copy.mkdir(parents=True)
    for path in source.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    logs = sorted(copy.glob("*.log"))
    match missing:
        case "log":
            logs[1].unlink()
        case "index":
            logs[1].with_suffix(".index").unlink()
        case "middle":
            logs[1].write_bytes(logs[1].read_bytes()[: SEGMENT_BYTES // 2])
        case _:
            for path in copy.iterdir():
                path.unlink()
    assert rows(segmented, 0, 200, server=broker.kafka, log_dir=tmp_path) == expected
    with pytest.raises(ClientError):
        rows(segmented, 0, 200, log_dir=tmp_path)


def test_an_index_that_is_not_of_its_log_is_not_believed(rows, fill, broker, client, topic):
    """The worst that a stale one can point to: a value that is a batch itself, of these offsets."""
    where = TopicPartition(topic, 0)
    inner = encode([Record(0, 1, None, b"wrong")] * 100)
    for number in range(20):
        value = bytes(inner) if number == 10 else b"right".ljust(2000)
        client.produce({where: [encode([Record(0, 1, None, value)])]})
    folder = broker.data_dir / "logs" / topic / "0"
    (log,), (index,) = folder.glob("*.log"), folder.glob("*.index")
    entry = PAIR.pack(1, log.read_bytes().find(inner[20:]) - 20)
    raw = index.read_bytes()
    index.write_bytes(raw[:HEAD_BYTES] + entry + CRC.pack(crc32c(entry)))
    found = rows(topic, 11, 20, server=broker.kafka)
    assert [value.strip() for _, value in found] == ["right"] * 9


def test_a_folder_that_is_not_there_or_not_for_us_is_done_without(
    rows, fill, broker, topic, tmp_path
):
    fill(topic, 0, "a")
    assert rows(topic, 0, 1, server=broker.kafka, log_dir=tmp_path / "nowhere") == [(0, "a")]
    assert not os.path.exists(tmp_path / "nowhere")
