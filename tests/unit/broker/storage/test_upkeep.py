"""What upkeep says of topics that go while it works on them."""

import pytest

from goqueue.broker.storage import partition_store
from goqueue.broker.storage.partition_store import _guarded
from goqueue.model.errors import GoQueueError, StorageFailed, TopicNotFound


class LevelLog:
    """A logger that keeps the levels of its lines."""

    def __init__(self) -> None:
        self.levels: list[str] = []

    def debug(self, _event: str, **_fields: object) -> None:
        self.levels.append("debug")

    def error(self, _event: str, **_fields: object) -> None:
        self.levels.append("error")


@pytest.mark.parametrize(
    ("error", "level"), [(TopicNotFound("deleted"), "debug"), (StorageFailed("broken"), "error")]
)
async def test_a_topic_deleted_meanwhile_is_no_failure(
    error: GoQueueError, level: str, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        raise error

    log = LevelLog()
    monkeypatch.setattr(partition_store, "_log", log)
    is_fine = await _guarded("checkpoint", "orders-0", work)
    assert log.levels == [level]
    assert is_fine == (level == "debug")
