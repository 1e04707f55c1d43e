"""What a writer is told: the options of `df.write` and `df.writeStream`, checked all at once.

Names are those of Kafka's connector and of Delta where they have one, in any case.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.client.kafka import NO_LOGIN, KafkaLogin
from goqueue.model.compression import CODEC_NAMES
from goqueue.model.errors import InvalidName
from goqueue.model.names import topic_name
from goqueue.spark.sink.values import NAMES as VALUE_NAMES
from goqueue.spark.sink.values import WriteValueOptions, write_value_options
from goqueue.spark.source.option_texts import LOGIN_NAMES, Given
from goqueue.spark.source.options import TIMEOUT_MS

TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
TRANSACTION_TIMEOUT_MS_MAX: Final = 24 * 3_600_000
BATCH_BYTES: Final = 1_000_000  # a topic takes 1 048 588 unless it says otherwise
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024  # a request must hold it, and 100 MiB are taken
APPLICATION_LENGTH_MAX: Final = 600
ANY_TOPIC: Final = "*"  # rows name their own
VERSION_MAX: Final = 2**63 - 1

NAMES: Final = (
    "batchBytes",
    "bootstrap.servers",
    "checkpointLocation",
    "compression",
    "goqueue.http",
    "kafka.bootstrap.servers",
    "kafka.compression.type",
    "kafka.max.request.size",
    "timeout",
    "topic",
    "txnAppId",
    "txnTimeout",
    "txnVersion",
    *VALUE_NAMES,
    *LOGIN_NAMES,
)


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    """Where the brokers are, HOST:PORT and more after commas."""
    login: KafkaLogin = NO_LOGIN
    topic: str | None = None
    """Where every row goes; None: the rows say so in their column `topic`."""
    http: str | None = None
    """The HTTP listener, or those of a cluster with commas between; None: as the brokers say."""
    compression: str = "none"
    application: str | None = None
    """In whose name a batch is written once; a stream has its query's id."""
    version: int | None = None
    """Which version of the application it is; a stream has the number of its micro-batch."""
    checkpoint: str | None = None
    """Where a stream's is."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    """An attempt that is undecided for so long is aborted."""
    timeout_ms: int = TIMEOUT_MS
    """A broker that does not answer is waited for so long."""
    batch_bytes: int = BATCH_BYTES
    """The size of a record batch; no topic takes more than its `max.message.bytes`."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """A message that is larger than a batch is a batch of its own, up to this size."""

    values: WriteValueOptions | None = None
    """By which schema values are written; None: they are bytes or text."""

    def application_of(self, name: str) -> str:
        return application_of(name, self.topic)


def application_of(name: str, topic: str | None) -> str:
    """In whose name the broker keeps decisions: one for each target, since a query may go on into
    another topic, and a batch may have two outputs."""
    return f"{name}@{topic or ANY_TOPIC}"


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> tuple[SinkOptions, list[str]]:
    """The options, and everything that is wrong with them."""
    reading = Given(given, NAMES)
    login = reading.login()
    options = SinkOptions(
        bootstrap=reading.bootstrap(),
        login=login,
        topic=_topic(reading),
        http=_http(reading, login.scheme),
        compression=_compression(reading),
        application=_application(reading),
        checkpoint=reading.text("checkpointLocation") or None,
        version=reading.whole("txnVersion", least=0, most=VERSION_MAX),
        transaction_timeout_ms=_transaction_timeout_ms(reading),
        timeout_ms=reading.duration_ms("timeout", TIMEOUT_MS),
        batch_bytes=reading.size("batchBytes", most=BATCH_BYTES_MAX) or BATCH_BYTES,
        message_bytes_max=_message_bytes_max(reading),
        values=write_value_options(reading),
    )
    _check_version(reading, is_stream=is_stream)
    return options, reading.problems


def _topic(reading: Given) -> str | None:
    text = reading.text("topic")
    try:
        return None if text is None else topic_name(text)
    except InvalidName as error:
        reading.problems.append(f"topic: {error}")
        return text


def _http(reading: Given, scheme: str) -> str | None:
    given = [each.strip() for each in (reading.text("goqueue.http") or "").split(",")]
    urls = [each if "://" in each else f"{scheme}://{each}" for each in given if each]
    return ",".join(urls) or None


def _compression(reading: Given) -> str:
    text = (reading.text("compression", "kafka.compression.type") or "none").lower()
    if text not in CODEC_NAMES:
        reading.problems.append(f"compression: {text!r} is none of {', '.join(CODEC_NAMES)}")
    return text


def _application(reading: Given) -> str | None:
    text = reading.text("txnAppId")
    if text is not None and not 0 < len(text) <= APPLICATION_LENGTH_MAX:
        reading.problems.append(
            f"txnAppId: {len(text)} characters, 1 to {APPLICATION_LENGTH_MAX} are allowed"
        )
    return text


def _transaction_timeout_ms(reading: Given) -> int:
    milliseconds = reading.duration_ms("txnTimeout", TRANSACTION_TIMEOUT_MS)
    if milliseconds > TRANSACTION_TIMEOUT_MS_MAX:
        reading.problems.append(f"txnTimeout: {reading.text('txnTimeout')} is more than 24h")
    return milliseconds


def _message_bytes_max(reading: Given) -> int:
    """Kafka's producers refuse a message that is larger than their largest request."""
    given = reading.size("kafka.max.request.size")
    return MESSAGE_BYTES_MAX if given is None else min(given, MESSAGE_BYTES_MAX)


def _check_version(reading: Given, *, is_stream: bool) -> None:
    if is_stream:
        if reading.text("txnAppId", "txnVersion") is not None:
            reading.problems.append(
                "txnAppId and txnVersion: a stream goes by its query's id, which the checkpoint"
                " keeps, and the number of its micro-batch; leave them out"
            )
    elif (reading.text("txnAppId") is None) != (reading.text("txnVersion") is None):
        reading.problems.append(
            "txnAppId and txnVersion: give both, or neither; in foreachBatch the version is the"
            " number of the batch"
        )
