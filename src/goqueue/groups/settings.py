"""What an administrator set for one group, beside what holds for all of them.

Settings stand by themselves: they may be there before the group is, and outlive it.
"""

from collections.abc import Callable

import msgspec

from goqueue.groups.config import GroupsConfig
from goqueue.model.errors import InvalidSetting
from goqueue.model.ids import GroupId


class GroupSettings(msgspec.Struct, frozen=True):
    """None: as the server's settings say."""

    session_timeout_ms: int | None = None
    """Silence after which a member of the consumer protocol is taken for dead. Shorter notices a
    dead member sooner; longer forgives pauses. Members that name a session of their own keep it."""
    heartbeat_interval_ms: int | None = None
    """How often members of the consumer protocol are told to come. A rebalance is noticed at the
    next heartbeat; if it is not set, the interval grows with the group."""

    def check(self, config: GroupsConfig) -> None:
        """Raises `InvalidSetting`."""
        session = self.session_ms(config)
        shortest, longest = config.session_timeout_ms_min, config.session_timeout_ms_max
        if self.session_timeout_ms is not None and not shortest <= session <= longest:
            raise InvalidSetting(
                f"a session of {session} ms: {shortest} to {longest} ms are allowed"
                " (groups.session_timeout_ms_min and groups.session_timeout_ms_max of the server)"
            )
        often = config.heartbeat_interval_ms_min
        interval = self.heartbeat_interval_ms
        if interval is not None and not often <= interval < session:
            raise InvalidSetting(
                f"a heartbeat every {interval} ms: it must be at least {often} ms"
                " (groups.heartbeat_interval_ms_min of the server) and less than the session's"
                f" {session} ms"
            )

    def session_ms(self, config: GroupsConfig) -> int:
        if self.session_timeout_ms is None:
            return config.session_timeout_ms
        return self.session_timeout_ms


UNSET = GroupSettings()
SettingsOf = Callable[[GroupId], GroupSettings]
