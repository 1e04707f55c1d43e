"""The cluster listener of a broker: what it answers to the other nodes."""

from functools import partial

from goqueue.broker import Broker
from goqueue.server.cluster.listener import ClusterListener
from goqueue.server.cluster.replica_fetch import replica_fetch_handler
from goqueue.server.kafka.frame_listener import ConnectionMetrics
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.server.server_log import ServerLog
from goqueue.server.tls import note_failed_handshake
from goqueue.wire.apis import ApiKey


def cluster_listener(
    broker: Broker, metrics: ConnectionMetrics, server_log: ServerLog
) -> ClusterListener | None:
    """None when the broker is alone."""
    config, cluster = broker.config, broker.cluster
    if not config.cluster.listen:
        return None
    sessions = ReplicaSessions(
        broker.environment.clock,
        config.kafka.fetch_bytes_max,
        cluster.replicas.find_log,
        cluster.note_ack,
        cluster.replicas.beside,
        cluster.sent_quota,
    )
    listener = ClusterListener(
        cluster.environment,
        config.cluster.listen,
        cluster.identity,
        cluster.handlers,
        metrics,
        server_log,
        cluster.connection_lost,
        {ApiKey.FETCH: replica_fetch_handler(sessions)},
    )
    listener.on_failed_handshake = partial(note_failed_handshake, broker.audit, "cluster")
    return listener
