"""What a writer is told: the options of `df.write` and `df.writeStream`, checked all at once.

Names are those of Kafka's connector and of Delta where they have one, in any case.  Jobs bring
options that are not for us (`kafka.linger.ms`, `checkpointLocation`): those are let be, unless they
look like a slip of the fingers.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.model.compression import CODEC_NAMES
from goqueue.model.errors import InvalidName, InvalidSetting
from goqueue.model.names import topic_name

TIMEOUT_MS: Final = 15 * 60_000
TIMEOUT_MS_MAX: Final = 24 * 3_600_000
BATCH_BYTES: Final = 1_000_000  # a topic takes 1 048 588 unless it says otherwise
BATCH_BYTES_MIN: Final = 1_024
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
APPLICATION_LENGTH_MAX: Final = 900
VERSION_MAX: Final = 2**63 - 1

NAMES: Final = (
    "bootstrap.servers",
    "kafka.bootstrap.servers",
    "topic",
    "compression",
    "kafka.compression.type",
    "txnAppId",
    "txnVersion",
    "txnTimeout",
    "batchBytes",
    "goqueue.http",
)
SIMILAR: Final = 0.8  # of difflib's ratio

DURATION: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|h)?")
UNIT_MS: Final = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    """Where the brokers are, HOST:PORT and more after commas."""
    topic: str | None = None
    """Where every row goes; None: the rows say so in their column `topic`."""
    http: str | None = None
    """The HTTP listener; None: as the broker says."""
    compression: str = "none"
    application: str | None = None
    """In whose name versions are decided; None: the streaming query's, or nobody's."""
    version: int | None = None
    """The version that a batch write is; a stream's is the number of its micro-batch."""
    timeout_ms: int = TIMEOUT_MS
    """An attempt that is undecided for so long is aborted."""
    batch_bytes: int = BATCH_BYTES
    """The size of a record batch; no topic takes more than its `max.message.bytes`."""


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> tuple[SinkOptions, list[str]]:
    """The options, and everything that is wrong with them."""
    reading = _Reading(given)
    options = SinkOptions(
        bootstrap=reading.bootstrap(),
        topic=reading.topic(),
        http=reading.http(),
        compression=reading.compression(),
        application=reading.application(),
        version=reading.whole("txnVersion", 0, VERSION_MAX),
        timeout_ms=reading.timeout_ms(),
        batch_bytes=reading.whole("batchBytes", BATCH_BYTES_MIN, BATCH_BYTES_MAX) or BATCH_BYTES,
    )
    if is_stream and reading.text("txnVersion") is not None:
        reading.problems.append(
            "txnVersion: a stream's version is the number of its micro-batch; leave it out"
        )
    names = ("txnAppId", "txnVersion")
    if not is_stream and len([name for name in names if reading.text(name) is not None]) == 1:
        reading.problems.append(
            "txnAppId and txnVersion: give both, or neither; in foreachBatch the version is the"
            " number of the batch"
        )
    return options, reading.problems


class _Reading:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self.problems = _slips(self._given)

    def text(self, *names: str) -> str | None:
        """The first of these that is given."""
        found = (self._given.get(name.lower()) for name in names)
        return next((value.strip() for value in found if value is not None), None)

    def bootstrap(self) -> str:
        text = self.text("bootstrap.servers", "kafka.bootstrap.servers")
        if not text:
            self.problems.append(
                "bootstrap.servers: where is the broker? Give HOST:PORT, 127.0.0.1:9092 say"
            )
        return text or ""

    def topic(self) -> str | None:
        text = self.text("topic")
        if text is None:
            return None
        try:
            return topic_name(text)
        except InvalidName as error:
            self.problems.append(f"topic: {error}")
            return text

    def http(self) -> str | None:
        text = self.text("goqueue.http")
        if text and "://" not in text:
            return f"http://{text}"
        return text or None

    def compression(self) -> str:
        text = (self.text("compression", "kafka.compression.type") or "none").lower()
        if text not in CODEC_NAMES:
            self.problems.append(f"compression: {text!r} is none of {', '.join(CODEC_NAMES)}")
        return text

    def application(self) -> str | None:
        text = self.text("txnAppId")
        if text is not None and not 0 < len(text) <= APPLICATION_LENGTH_MAX:
            self.problems.append(
                f"txnAppId: {len(text)} characters, 1 to {APPLICATION_LENGTH_MAX} are allowed"
            )
        return text

    def timeout_ms(self) -> int:
        text = self.text("txnTimeout")
        if text is None:
            return TIMEOUT_MS
        found = DURATION.fullmatch(text)
        milliseconds = int(found[1]) * UNIT_MS[found[2]] if found else 0
        if not 0 < milliseconds <= TIMEOUT_MS_MAX:
            self.problems.append(
                f"txnTimeout: {text!r} is not a time up to 24h: write 90s, 15m or milliseconds"
            )
        return milliseconds

    def whole(self, name: str, least: int, most: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            self.problems.append(f"{name}: {text!r} is not a number from {least} to {most}")
            return None
        return int(text)


def _slips(given: Mapping[str, str]) -> list[str]:
    known = {name.lower(): name for name in NAMES}
    found = []
    for name in given.keys() - known.keys():
        similar = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
        if similar:
            found.append(f"{name}: did you mean {known[similar[0]]}?")
    return sorted(found)


def refuse(problems: list[str]) -> None:
    """Say everything that is wrong, at once."""
    if problems:
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise InvalidSetting(f"cannot write to GoQueue, {count}:{lines}")
