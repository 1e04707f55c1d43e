"""What upkeep says of topics that go while it works on them."""

import pytest
from structlog.testing import capture_logs

from goqueue.broker.storage.partition_store import _guarded
from goqueue.model.errors import GoQueueError, StorageFailed, TopicNotFound


@pytest.mark.parametrize(
    ("error", "level"), [(TopicNotFound("deleted"), "debug"), (StorageFailed("broken"), "error")]
)
async def test_a_topic_deleted_meanwhile_is_no_failure(error: GoQueueError, level: str):
    async def work() -> None:
        raise error

    with capture_logs() as lines:
        is_fine = await _guarded("checkpoint", "orders-0", work)
    assert [line["log_level"] for line in lines] == [level]
    assert is_fine == (level == "debug")
