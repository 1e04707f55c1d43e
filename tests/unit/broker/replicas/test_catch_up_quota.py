"""What replicas that catch up may copy, by the rates that the metadata has."""

import asyncio

from goqueue.broker.replicas import CatchUpQuota
from goqueue.cluster.throttles import Copy, Throttle
from tests.unit.broker.replicas.replicas import FOLLOWER, Pair, tell


def quota_of(pair: Pair, copy: Copy) -> CatchUpQuota:
    return CatchUpQuota(pair.clock, lambda _topic, _index, _node: copy)


def test_whoever_copied_waits_until_its_rate_allows_more():
    async def story(pair: Pair) -> None:
        quota = quota_of(pair, Copy(True, Throttle("a", 1000)))
        assert quota.delay_seconds(pair.leader, FOLLOWER) == 0
        quota.note(pair.leader, FOLLOWER, 3000)
        assert quota.delay_seconds(pair.leader, FOLLOWER) == 3.0
        await asyncio.sleep(2.0)
        assert round(quota.delay_seconds(pair.leader, FOLLOWER), 3) == 1.0
        await asyncio.sleep(5.0)
        quota.note(pair.leader, FOLLOWER, 100)  # an idle time is not saved up
        assert round(quota.delay_seconds(pair.leader, FOLLOWER), 3) == 0.1
        assert quota.reassigned_bytes == 3100

    tell(story)


def test_a_low_rate_comes_in_small_pieces():
    async def story(pair: Pair) -> None:
        slow, fast = Throttle("a", 40_000), Throttle("a", 100_000_000)
        for throttle, expected in ((slow, 10_000), (fast, 1_000_000), (None, 1_000_000)):
            quota = quota_of(pair, Copy(False, throttle))
            assert quota.chunk_bytes(pair.leader, FOLLOWER, 1_000_000) == expected

    tell(story)


def test_copies_without_a_throttle_do_not_wait():
    async def story(pair: Pair) -> None:
        quota = quota_of(pair, Copy())
        quota.note(pair.leader, FOLLOWER, 1 << 30)
        assert quota.delay_seconds(pair.leader, FOLLOWER) == 0
        assert quota.reassigned_bytes == 0

    tell(story)
