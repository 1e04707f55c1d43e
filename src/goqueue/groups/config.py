"""The bounds and defaults of groups."""

import msgspec

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class GroupsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the group machine; times in milliseconds."""

    session_timeout_ms: int = 30_000
    """Silence after which a member is taken for dead.  Classic members choose their own."""
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * MINUTE_MS
    heartbeat_interval_ms: int = 3_000
    """How often consumer-protocol members are told to come."""
    initial_rebalance_delay_ms: int = 3_000
    """How long a classic group that was empty waits for more members before its first generation.

    Longer saves rebalances when a fleet starts; 0 suits tests and single consumers."""
    rebalance_timeout_ms: int = 60_000
    """Time to give up partitions, for members that name none."""
    members_max: int = 10_000
    """Members of one group; further joins are refused."""
    offset_retention_ms: int = 7 * DAY_MS
    """How long committed offsets outlive the last member of their group."""
    offset_check_interval_ms: int = 10 * MINUTE_MS
    """How often a group is looked at for offsets to expire, and for being empty."""
    offset_metadata_bytes_max: int = 4_096
