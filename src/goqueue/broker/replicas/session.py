"""A follower's half of an incremental fetch session (KIP-227): what the leader was told already.

    full      session epoch 0, every partition
    changes   the next epoch, and only the partitions of which something is new, or that are left
              out from now on

An answer that does not come, or that refuses the session, begins a new one.
"""

from collections.abc import Callable, Iterable

from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.model.ids import TopicIdPartition
from goqueue.wire.fetch import FetchTopic, ForgottenTopic
from goqueue.wire.replica_fetch import ReplicaFetchResponse

_EPOCH_MAX = 2**31 - 1


class FollowerSession:
    def __init__(self) -> None:
        self.session_id = 0  # 0: the leader has none for us, as far as we know
        self.epoch = 0  # of the next request
        self._told: dict[TopicIdPartition, ReplicaLog] = {}
        self._left_out: dict[TopicIdPartition, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == 0

    def tell(
        self, replicas: Iterable[ReplicaLog], bytes_max: Callable[[ReplicaLog], int]
    ) -> list[FetchTopic]:
        """What the next request asks for."""
        topics: dict[object, FetchTopic] = {}
        for replica in replicas:
            key = replica.key
            self._told[key] = replica
            self._left_out.pop(key, None)
            topic = topics.setdefault(key.topic_id, FetchTopic(key.topic_id, []))
            topic.partitions.append(replica.next_fetch(bytes_max(replica)))
        return list(topics.values())

    def leave_out(self, replica: ReplicaLog) -> None:
        """Nothing more is asked for it."""
        if self._told.get(replica.key) is replica:
            del self._told[replica.key]
            self._left_out[replica.key] = None

    def take_left_out(self) -> list[ForgottenTopic]:
        topics: dict[object, ForgottenTopic] = {}
        for topic_id, index in self._left_out:
            topics.setdefault(topic_id, ForgottenTopic(topic_id, [])).partitions.append(index)
        self._left_out.clear()
        return list(topics.values())

    def find(self, key: TopicIdPartition) -> ReplicaLog | None:
        """Whom an answer is for; a replica that was asked for, not one that has its place since."""
        return self._told.get(key)

    def take(self, response: ReplicaFetchResponse) -> bool:
        """False when the leader refused the session: the response says nothing else."""
        if response.error_code:
            self.begin_anew()
            return False
        self.session_id = response.session_id
        self.epoch = self.epoch % _EPOCH_MAX + 1
        return True

    def begin_anew(self) -> None:
        """The session that was is named in the next request, so the leader ends it."""
        self.epoch = 0
        self._told.clear()
        self._left_out.clear()
