"""The client: all verbs in one object."""

from types import TracebackType

from goqueue.client.kafka.admin import AdminVerbs
from goqueue.client.kafka.groups import GroupVerbs
from goqueue.client.kafka.reading import ReadingVerbs
from goqueue.client.kafka.writing import WritingVerbs


class KafkaClient(AdminVerbs, ReadingVerbs, WritingVerbs, GroupVerbs):
    """A blocking client of a cluster, for one thread.

    `timeout_s` is the deadline of a call, all its tries together: a broker that is down, or is
    started again meanwhile, costs a call that time and nothing else.
    """

    def __enter__(self) -> "KafkaClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()
