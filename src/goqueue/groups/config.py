"""The bounds and defaults of groups, which are part of the server's configuration."""

import msgspec

from goqueue.model.config import GroupsConfig

__all__ = ["AssignmentPace", "GroupsConfig"]


class AssignmentPace(msgspec.Struct, frozen=True):
    """How often the partitions of a large consumer group are assigned again."""

    large_group_members: int = 200
    """From this size on a group's target is computed at most once an interval."""
    interval_ms: int = 1_000
    """Longer saves work while a fleet starts; newcomers wait for it."""
