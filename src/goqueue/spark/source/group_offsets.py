"""A stream's offsets as those of a consumer group, for people and their lag tools."""

import logging
from typing import Final

from goqueue.client.errors import ClientError
from goqueue.client.kafka import ErrorCode, KafkaClient, KafkaLogin, KafkaRefused
from goqueue.spark.source.positions import Places

CLIENT_ID: Final = "goqueue-spark"

log = logging.getLogger(__name__)


class GroupOffsets:
    """Shows offsets.  No stream fails for it: what goes wrong is told to the log, once a group."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._warned: set[str] = set()

    def publish(
        self, bootstrap: str, group: str, reached: Places, login: KafkaLogin | None = None
    ) -> None:
        try:
            with KafkaClient(
                bootstrap, client_id=CLIENT_ID, timeout_s=self._timeout_s, login=login
            ) as client:
                client.commit_offsets(group, reached)
        except ClientError as error:
            # A topic that is gone has no lag; whether it may be gone the stream itself decides.
            if group not in self._warned and not _is_gone(error):
                self._warned.add(group)
                log.warning("the offsets are not shown as group %r: %s", group, error)


def _is_gone(error: ClientError) -> bool:
    gone = ErrorCode.unknown_topic_or_partition
    return isinstance(error, KafkaRefused) and error.code is gone
