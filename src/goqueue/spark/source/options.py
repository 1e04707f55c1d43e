"""What a reader is told: the options of `spark.read` and `spark.readStream`, checked all at once.

Names are those of Kafka's connector where it has one, in any case, so that a job moves over by
changing the name of its format.  Options of Kafka's consumers (`kafka.…`) that mean nothing here
are let be; one that looks like a slip of the fingers is not.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.spark.source.option_texts import LOGIN_FILE, LOGIN_NAMES, Given, refuse
from goqueue.spark.source.positions import (
    AtTime,
    AtTimes,
    Position,
    parse_places,
    parse_position,
    parse_time,
)
from goqueue.spark.source.subscriptions import (
    Subscription,
    Topics,
    parse_assigned,
    parse_pattern,
    parse_topics,
)
from goqueue.spark.source.value_options import NAMES as VALUE_NAMES
from goqueue.spark.source.value_options import ValueOptions, value_options

Unit = Literal["record", "batch", "range"]
WhenBeyondEnd = Literal["error", "latest"]

PUSHDOWN_VARIABLE: Final = "GOQUEUE_SPARK_PUSHDOWN"
"""Set by our session builder for its JVM: Spark refuses a reader that takes filters unless its own
setting allows it, and a reader cannot see that setting."""

CORES_VARIABLE: Final = "GOQUEUE_SPARK_CORES"
"""Set by our session builder for a JVM that runs its tasks itself: a reader cannot ask for it."""

MEBIBYTE: Final = 1024 * 1024
TASK_BYTES: Final = 64 * MEBIBYTE
TASKS_MAX: Final = 2_000
FETCH_BYTES_MAX: Final = 1024 * MEBIBYTE
TRIGGER_DELAY_MS: Final = 15 * 60_000
TIMEOUT_MS: Final = 120_000

NAMES: Final = (
    "assign",
    "bootstrap.servers",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchBytes",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "group",
    "groupIdPrefix",
    "includeHeaders",
    "isolation",
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafkaConsumer.pollTimeoutMs",
    "logDir",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTasks",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pushdown",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "taskBytes",
    "timeout",
    "topics",
    "unit",
    *VALUE_NAMES,
    *LOGIN_NAMES,
)


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    """Where the brokers are, HOST:PORT and more after commas."""
    login: KafkaLogin = NO_LOGIN
    login_file: str | None = None
    """Where the login is from, for those who only see the stream's offsets."""
    subscription: Subscription
    starting: Position
    ending: Position
    """Of a batch; a stream has none."""
    beyond_end: WhenBeyondEnd = "error"
    """What a starting time means that no record is as young as."""
    read_committed: bool = True
    fail_on_data_loss: bool = True
    unit: Unit = "record"
    """What a row is."""
    include_headers: bool = False
    values: ValueOptions | None = None
    """Values by their schemas; None: bytes."""
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = TRIGGER_DELAY_MS
    """How long a stream waits for `offsets_per_trigger_min`."""
    bytes_per_trigger_max: int | None = None
    """By the average size of a partition's records, so about that much."""
    tasks_min: int = 1
    tasks_max: int = TASKS_MAX
    task_bytes: int = TASK_BYTES
    """How much a task reads before another is worth its start."""
    records_per_task_max: int | None = None
    cores: int | None = None
    """How many tasks run at a time; None: nobody knows."""
    fetch_bytes: int | None = None
    """Asked for at a time; None: what suits the decoder."""
    log_dir: str | None = None
    """The server's `logs` folder, to read files instead of asking; for jobs on its machine."""
    group: str | None = None
    """The consumer group to show the stream's offsets as; empty: none."""
    pushdown: bool = False
    timeout_ms: int = TIMEOUT_MS
    """How long a broker that does not answer is waited for."""


def source_options(given: Mapping[str, str], *, is_stream: bool | None) -> SourceOptions:
    """The options; raises `InvalidOptions` with all that is wrong.

    `is_stream` None: nobody knows yet, so only what is wrong for both.
    """
    reading = Given(given, NAMES)
    options = SourceOptions(
        bootstrap=reading.bootstrap(),
        login=reading.login(),
        login_file=reading.text(LOGIN_FILE),
        subscription=_subscription(reading),
        starting=_position(reading, "starting") or ("latest" if is_stream else "earliest"),
        ending=_position(reading, "ending") or "latest",
        beyond_end=reading.choice("startingOffsetsByTimestampStrategy", "error", "latest"),
        read_committed=_isolation(reading) == "read_committed",
        fail_on_data_loss=reading.flag("failOnDataLoss", True),
        unit=reading.choice("unit", "record", "batch", "range"),
        include_headers=reading.flag("includeHeaders", False),
        values=value_options(reading),
        offsets_per_trigger_max=reading.whole("maxOffsetsPerTrigger"),
        offsets_per_trigger_min=reading.whole("minOffsetsPerTrigger"),
        trigger_delay_ms_max=reading.duration_ms("maxTriggerDelay", TRIGGER_DELAY_MS),
        bytes_per_trigger_max=reading.size("maxBytesPerTrigger"),
        tasks_min=reading.whole("minPartitions") or 1,
        tasks_max=reading.whole("maxTasks") or TASKS_MAX,
        task_bytes=reading.size("taskBytes") or TASK_BYTES,
        records_per_task_max=reading.whole("maxRecordsPerPartition"),
        cores=_cores(os.environ.get(CORES_VARIABLE)),
        fetch_bytes=reading.size("fetchBytes", most=FETCH_BYTES_MAX),
        log_dir=reading.text("logDir"),
        group=reading.text("group", "kafka.group.id"),
        pushdown=reading.flag("pushdown", os.environ.get(PUSHDOWN_VARIABLE) == "true"),
        timeout_ms=reading.duration_ms("timeout", TIMEOUT_MS),
    )
    _check_together(reading, options)
    if is_stream:
        _check_stream(reading)
    elif is_stream is not None:
        _check_batch(reading, options)
    refuse("read from", reading.problems)
    return options


def _subscription(reading: Given) -> Subscription:
    ways: dict[str, Callable[[str], Subscription]] = {
        "subscribe": parse_topics,
        "topics": parse_topics,
        "subscribePattern": parse_pattern,
        "assign": parse_assigned,
    }
    given = [name for name in ways if reading.text(name) is not None]
    if len(given) != 1:
        said = f", not {' and '.join(given)}" if given else ""
        reading.problems.append(
            f"what to read: give one of subscribe, subscribePattern and assign{said}"
        )
        return Topics(())
    return reading.parse(given[0], ways[given[0]]) or Topics(())


def _position(reading: Given, which: str) -> Position | None:
    """As with Kafka's connector the time wins, then times, then offsets."""
    moment = reading.parse(f"{which}Timestamp", parse_time)
    moments = reading.parse(f"{which}OffsetsByTimestamp", lambda text: parse_places(text, least=0))
    position = reading.parse(f"{which}Offsets", parse_position)
    if moment is not None:
        return AtTime(moment)
    return position if moments is None else AtTimes(moments)


def _isolation(reading: Given) -> str:
    name = "isolation" if reading.text("isolation") is not None else "kafka.isolation.level"
    return reading.choice(name, "read_committed", "read_uncommitted")


def _cores(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) > 0 else None


def _check_batch(reading: Given, options: SourceOptions) -> None:
    if options.starting == "latest":
        reading.problems.append("startingOffsets: a batch that starts at the latest reads nothing")
    if options.ending == "earliest":
        reading.problems.append("endingOffsets: a batch that ends at the earliest reads nothing")


def _check_stream(reading: Given) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if reading.text(name) is not None:
            reading.problems.append(
                f"{name}: a stream has no end; trigger(availableNow=True) stops at the latest"
            )


def _check_together(reading: Given, options: SourceOptions) -> None:
    say = reading.problems.append
    if options.tasks_min > options.tasks_max:
        say(f"minPartitions is {options.tasks_min} and maxTasks {options.tasks_max}")
    least, most = options.offsets_per_trigger_min, options.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        say(f"minOffsetsPerTrigger is {least} and maxOffsetsPerTrigger {most}")
    if options.unit == "batch" and options.include_headers:
        say("includeHeaders: a row of unit=batch is a whole batch, its headers inside")
    if options.unit == "range" and options.include_headers:
        say("includeHeaders: a row of unit=range says where records are, and has none")
    if options.unit != "record" and options.values is not None:
        say(f"value.format: rows of unit={options.unit} are not single values")
    if reading.text("path") is not None:
        say("a topic is not a path: use option subscribe, and load() without an argument")
