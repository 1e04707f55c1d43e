"""A look at the newest values of a topic."""

from collections.abc import Iterator
from typing import Final

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.model.ids import TopicPartition

VALUES_MAX: Final = 1000
PARTITIONS_MAX: Final = 8
BYTES_MAX: Final = 4 * 1024 * 1024


def newest_values(client: KafkaClient, topic: str) -> list[bytes | None]:
    """Some of the newest, from some of the partitions."""
    layout = client.metadata([topic])[topic]
    places = layout.partitions[:PARTITIONS_MAX]
    starts = client.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(places, LATEST))
    share = max(1, VALUES_MAX // len(places))
    found: list[bytes | None] = []
    for place in places:
        start = max(starts[place].offset, ends[place].offset - share)
        found.extend(_values(client, place, start, ends[place].offset))
    return found


def _values(
    client: KafkaClient, place: TopicPartition, start: int, end: int
) -> Iterator[bytes | None]:
    from goqueue.spark.columns import Decoder

    if start >= end:
        return
    fetched = client.fetch(place.topic, place.partition, start, bytes_max=BYTES_MAX)
    aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted]
    decoder = Decoder(place.topic, place.partition, ("value",))
    decoded = decoder.decode(fetched.records, start=start, end=end, aborted=aborted)
    yield from decoded.batch.column(0).to_pylist()
