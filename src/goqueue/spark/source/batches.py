"""The plan of a batch: which offsets there are between its two positions, and who reads which."""

from collections.abc import Sequence
from functools import partial

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.spark.source.admission import record_bytes
from goqueue.spark.source.connection import connect
from goqueue.spark.source.filters import Bounds
from goqueue.spark.source.loss import describe_deleted
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.plan import OffsetRange, Sizing, Task, plan
from goqueue.spark.source.positions import AtOffsets, ListOffsets, Places, PositionUnknown, resolve
from goqueue.spark.source.subscriptions import discover


def plan_batch(options: SourceOptions, bounds: Bounds) -> list[Task]:
    """The tasks; none where there is nothing to read."""
    with connect(options.bootstrap, options.timeout_ms, options.login) as client:
        ranges = _apply_filters(bounds, _ranges(options, client), client)
        sizes = record_bytes(client, [each.where for each in ranges])
    return plan(ranges, sizing_of(options), sizes)


def sizing_of(options: SourceOptions) -> Sizing:
    return Sizing(
        options.tasks_min,
        options.tasks_max,
        options.task_bytes,
        options.records_per_task_max,
        # Whoever asks for ranges makes a file of each: fewer are better.
        spreads=options.unit != "range",
        cores=options.cores,
    )


def _ranges(options: SourceOptions, client: KafkaClient) -> list[OffsetRange]:
    """Everything between the two positions."""
    partitions = discover(options.subscription, client)
    list_offsets = partial(client.list_offsets, read_committed=options.read_committed)
    starts = resolve(options.starting, partitions, list_offsets, beyond_end=options.beyond_end)
    ends = resolve(options.ending, partitions, list_offsets, beyond_end="latest")
    if isinstance(options.starting, AtOffsets):
        starts = _checked_starts(starts, list_offsets, options.fail_on_data_loss)
    if isinstance(options.ending, AtOffsets):
        _check_ends(ends, list_offsets)
    for where, start in starts.items():
        if start > ends[where] and isinstance(options.ending, AtOffsets):
            raise PositionUnknown(f"{where} would end at {ends[where]}, before its start, {start}")
    return [OffsetRange(*where, starts[where], ends[where]) for where in partitions]


def _checked_starts(starts: Places, list_offsets: ListOffsets, fail_on_data_loss: bool) -> Places:
    """Offsets that somebody wrote down, which may be gone by now."""
    earliest = list_offsets(dict.fromkeys(starts, EARLIEST))
    for where, start in starts.items():
        if start < earliest[where].offset and fail_on_data_loss:
            raise describe_deleted(where, wanted=start, earliest=earliest[where].offset)
    return {where: max(start, earliest[where].offset) for where, start in starts.items()}


def _check_ends(ends: Places, list_offsets: ListOffsets) -> None:
    latest = list_offsets(dict.fromkeys(ends, LATEST))
    for where, end in ends.items():
        if end > latest[where].offset:
            raise PositionUnknown(
                f"endingOffsets: {where} has {latest[where].offset} for its latest, {end} is wanted"
            )


def _apply_filters(
    bounds: Bounds, ranges: Sequence[OffsetRange], client: KafkaClient
) -> list[OffsetRange]:
    """What filters leave of the ranges."""
    narrowed = [
        each._replace(start=max(each.start, bounds.start), end=min(each.end, bounds.end))
        for each in ranges
        if (bounds.topics is None or each.topic in bounds.topics)
        and (bounds.partitions is None or each.partition in bounds.partitions)
    ]
    kept = [each for each in narrowed if each.length > 0]
    if bounds.timestamp_ms_min is None or not kept:
        return kept
    times = {each.where: bounds.timestamp_ms_min for each in kept}
    found = client.list_offsets(times, read_committed=False)
    starts = {where: answer.offset for where, answer in found.items() if answer.offset >= 0}
    return [
        each._replace(start=max(each.start, starts[each.where]))
        for each in kept
        if each.where in starts and starts[each.where] < each.end
    ]
