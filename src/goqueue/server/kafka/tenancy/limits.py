"""What one client is held to: its quotas, and its tenant's names."""

from typing import Final, NamedTuple

from goqueue.quotas import Namespace
from goqueue.server.kafka.throttling import Throttle


class ClientLimits(NamedTuple):
    throttle: Throttle | None = None
    namespace: Namespace | None = None


NO_LIMITS: Final = ClientLimits()
