"""The leader's rules: what is committed, and who is in sync."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.replication import FollowerFetch, IsrMember, Leader, LostData, Replicas
from goqueue.cluster.replication.lag import MS, LagLimits
from goqueue.model.errors import NotLeader
from goqueue.model.ids import Epoch, Instant, NodeEpoch, NodeId, Offset, PartitionEpoch

ME, A, B = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, A, B)
LIMITS = LagLimits()
START = Instant(0)


def leader(*isr: NodeId, joining: tuple[NodeId, ...] = (), partition_epoch: int = 0) -> Leader:
    return Leader(
        node=ME,
        epoch=Epoch(7),
        partition_epoch=PartitionEpoch(partition_epoch),
        replicas=ALL,
        isr=frozenset(isr),
        joining=frozenset(joining),
    )


class World:
    """A leader with two followers, and a clock."""

    def __init__(self, role: Leader, min_insync: int = 2, epoch_start: int = 0) -> None:
        self.now = START
        self.end = 0
        self.high_watermark = Offset(0)
        self.replicas = Replicas(
            role,
            min_insync_replicas=min_insync,
            node_epoch=NodeEpoch(11),
            epoch_start=Offset(epoch_start),
            now=START,
        )

    def wait(self, milliseconds: int) -> None:
        self.now = Instant(self.now + milliseconds * MS)

    def ack(
        self,
        node: NodeId,
        offset: int,
        node_epoch: int = 22,
        number: int = -1,
        *,
        has_room: bool = True,
    ) -> LostData | None:
        fetch = FollowerFetch(
            node=node,
            node_epoch=NodeEpoch(node_epoch),
            number=number,
            synced_offset=Offset(offset),
            end_offset=Offset(offset),
            has_room=has_room,
        )
        return self.replicas.ack(fetch, leader_end=Offset(self.end), now=self.now)

    def commit(self, own: int | None = None) -> int:
        self.high_watermark = self.replicas.high_watermark(
            Offset(self.end if own is None else own),
            at_least=self.high_watermark,
            counts_synced=True,
        )
        return self.high_watermark

    def propose(self, ineligible: frozenset[NodeId] = frozenset()) -> set[NodeId] | None:
        """The ISR that is proposed; taken as proposed, not as granted."""
        proposal = self.replicas.propose(
            high_watermark=self.high_watermark,
            leader_end=Offset(self.end),
            now=self.now,
            ineligible=ineligible,
        )
        if proposal is None:
            return None
        self.replicas.take_role(proposal.role, self.now)
        self.replicas.note_left_out(proposal.slow, self.now)
        return {member.node for member in proposal.isr}

    def grant(self, *isr: NodeId) -> None:
        epoch = self.replicas.role.partition_epoch + 1
        self.replicas.take_role(leader(*isr, partition_epoch=epoch), self.now)

    def pass_time(self, milliseconds: int, acks: dict[NodeId, int]) -> None:
        """Writes and acks every 20 ms; each ack takes as long as it says."""
        for _ in range(milliseconds // 20):
            self.wait(20)
            self.end += 1
            self.replicas.note_own_sync(2 * MS, self.now)
            for node, took in acks.items():
                progress = self.replicas.followers[node]
                progress.served_at = Instant(self.now - took * MS)
                self.ack(node, self.end)

    def pass_slow_time(self, acks: dict[NodeId, int]) -> None:
        """So long that it cannot be by chance."""
        self.pass_time(2_000, acks)
        assert self.propose() is None
        self.pass_time(2_000, acks)


# --- commit ---------------------------------------------------------------------------------------


def test_a_leader_without_followers_commits_what_it_has_itself():
    alone = Replicas(
        Leader.alone(ME, Epoch(0)), min_insync_replicas=1, epoch_start=Offset(0), now=START
    )
    assert alone.high_watermark(Offset(5), at_least=Offset(3), counts_synced=True) == 5
    assert alone.high_watermark(Offset(2), at_least=Offset(3), counts_synced=True) == 3


def test_a_min_insync_above_the_replication_factor_stops_nobody():
    alone = Replicas(
        Leader.alone(ME, Epoch(0)), min_insync_replicas=2, epoch_start=Offset(0), now=START
    )
    assert alone.has_enough


def test_the_slowest_of_the_isr_decides():
    world = World(leader(ME, A, B))
    world.end = 10
    assert world.commit() == 0, "B and A have not said what they have"
    world.ack(A, 8)
    world.ack(B, 4)
    assert world.commit() == 4
    world.grant(ME, A)
    assert world.commit() == 8


def test_too_few_in_sync_commit_nothing():
    world = World(leader(ME))
    world.end = 10
    assert world.commit() == 0
    world.replicas.set_min_insync_replicas(1)
    assert world.commit() == 10


def test_what_followers_have_in_memory_counts_only_if_the_topic_says_so():
    world = World(leader(ME, A))
    fetch = FollowerFetch(
        node=A, node_epoch=NodeEpoch(1), synced_offset=Offset(3), end_offset=Offset(9)
    )
    world.replicas.ack(fetch, leader_end=Offset(9), now=START)
    for counts_synced, expected in ((True, 3), (False, 9)):
        assert (
            world.replicas.high_watermark(
                Offset(9), at_least=Offset(0), counts_synced=counts_synced
            )
            == expected
        )


nodes = st.sampled_from([A, B])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), nodes, st.integers(0, 20)),
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.tuples(st.just("role"), st.frozensets(nodes), st.frozensets(nodes)),
        st.tuples(st.just("min"), st.integers(1, 3)),
    ),
    max_size=40,
)


@given(steps)
def test_the_high_watermark_is_the_least_of_all_that_count_and_never_falls(history):
    """Against the rule as one would write it without a thought for speed."""
    world = World(leader(ME, A, B))
    acked: dict[NodeId, int] = {}
    isr, joining, min_insync, expected = {ME, A, B}, set(), 2, 0
    for step in history:
        match step:
            case ("ack", node, offset):
                acked[node] = min(max(offset, acked.get(node, 0)), world.end)
                world.ack(node, acked[node])
            case ("write", count):
                world.end += count
            case ("role", members, more):
                isr, joining = {ME, *members}, set(more) - members
                epoch = world.replicas.role.partition_epoch + 1
                role = leader(*isr, joining=tuple(joining), partition_epoch=epoch)
                world.replicas.take_role(role, START)
            case _:
                min_insync = step[1]
                world.replicas.set_min_insync_replicas(min_insync)
        if len(isr) >= min_insync:
            offsets = [world.end, *(acked.get(node, -1) for node in {*isr, *joining} - {ME})]
            expected = max(expected, min(offsets))
        assert world.commit() == expected


def test_a_follower_that_asks_for_less_than_it_had_has_lost_data():
    world = World(leader(ME, A, B))
    world.end = 10
    assert world.ack(A, 10) is None
    assert world.ack(B, 10) is None
    assert world.commit() == 10
    assert world.ack(A, 4, node_epoch=23) == LostData(A, Offset(10), Offset(4))
    assert world.commit() == 10
    assert world.propose() == {ME, B}
    world.grant(ME, B)
    assert world.propose() is None, "it is not back before it has everything again"
    world.ack(A, 10, node_epoch=23)
    assert world.propose() == {ME, A, B}


def test_a_node_that_registered_again_is_not_confused_with_its_former_self():
    world = World(leader(ME, A))
    world.ack(A, 0, node_epoch=23)
    with pytest.raises(NotLeader, match="epoch 22, it is 23 now"):
        world.ack(A, 5, node_epoch=22)
    with pytest.raises(NotLeader, match="no replica"):
        world.ack(NodeId(99), 5)


# --- who is in sync -------------------------------------------------------------------------------


def test_a_request_that_a_later_one_overtook_is_no_loss_of_data():
    world = World(leader(ME, A))
    world.end = 9
    assert world.ack(A, 9, number=5) is None
    with pytest.raises(NotLeader, match="fetch 4"):
        world.ack(A, 3, number=4)
    assert world.commit() == 9
    assert world.ack(A, 9, node_epoch=23, number=0) is None  # a new process counts anew


def test_a_follower_that_had_all_is_caught_up_until_the_leader_writes_more():
    """It does not ask again while there is nothing new."""
    world = World(leader(ME, A, B))
    world.ack(A, 0)
    world.ack(B, 0)
    world.wait(60_000)
    world.replicas.note_append(Offset(0), world.now)
    world.end = 1
    assert world.propose() is None
    world.wait(LIMITS.lag_ms + 1)
    world.replicas.note_append(Offset(1), world.now)
    assert world.propose() is not None


def test_a_follower_that_acknowledges_nothing_for_too_long_leaves():
    world = World(leader(ME, A, B))
    world.pass_time(LIMITS.lag_ms, {A: 2})
    assert world.propose() is None
    world.pass_time(20, {A: 2})
    assert world.propose() == {ME, A}


def test_a_follower_without_room_leaves_at_once_and_enters_when_it_has_some():
    world = World(leader(ME, A, B))
    world.end = 10
    world.ack(A, 10)
    world.ack(B, 10, has_room=False)
    assert world.propose() is None, "it has all that there is"
    world.end = 20
    world.ack(A, 20)
    assert world.propose() == {ME, A}
    world.grant(ME, A)
    assert world.commit() == 20
    world.ack(B, 20, has_room=False)
    assert world.propose() is None, "the next record would wait for it"
    world.ack(B, 20)
    assert world.propose() == {ME, A, B}


def test_a_follower_that_is_always_a_little_behind_stays():
    world = World(leader(ME, A, B))
    for _ in range(10):
        world.wait(1_000)
        world.end += 5
        world.ack(A, world.end)
        world.ack(B, world.end - 5)  # what was there a second ago
    assert world.propose() is None


def test_a_follower_that_is_some_responses_behind_all_the_time_stays():
    """As under a producer that sends more than one response holds: 0.4 s behind is not 3 s."""
    world, behind = World(leader(ME, A, B)), 4
    for step in range(LIMITS.lag_ms // 100 * 3):
        world.end = 10 * (step + 1)
        world.ack(A, max(0, 10 * (step - behind)))
        world.ack(B, world.end)
        assert world.propose() is None, f"after {step / 10} s"
        world.wait(100)


def test_a_follower_that_falls_ever_further_behind_leaves():
    """It acknowledges more with every fetch, and half of what is written."""
    world, steps = World(leader(ME, A, B)), LIMITS.lag_ms // 100 * 6
    for step in range(steps):
        world.end = 10 * (step + 1)
        world.ack(A, 5 * step)
        world.ack(B, world.end)
        if world.propose() == {ME, B}:
            return
        world.wait(100)
    raise AssertionError("it is as many seconds behind as it is out of sync")


def test_an_idle_partition_loses_nobody():
    world = World(leader(ME, A, B))
    for node in (A, B):
        world.ack(node, 0)
    world.wait(60_000)
    assert world.propose() is None


def test_who_leaves_counts_until_it_is_granted():
    world = World(leader(ME, A, B))
    world.pass_time(LIMITS.lag_ms + 20, {A: 2})
    assert world.propose() == {ME, A}
    assert world.commit() == 0
    world.grant(ME, A)
    assert world.commit() == world.end


def test_who_joins_counts_from_the_proposal_on():
    world = World(leader(ME, A))
    world.end = 10
    world.ack(A, 10)
    world.ack(B, 10)
    assert world.commit() == 10
    assert world.propose() == {ME, A, B}
    world.end = 20
    world.ack(A, 20)
    assert world.commit() == 10


def test_who_was_refused_counts_until_a_newer_partition_epoch():
    """A second copy of the proposal may be granted when the reason for the refusal is gone."""
    world = World(leader(ME, A))
    world.end = 10
    world.ack(A, 10)
    world.ack(B, 10)
    world.commit()
    assert world.propose() == {ME, A, B}
    world.end = 20
    world.ack(A, 20)
    assert world.propose(ineligible=frozenset({B})) == {ME, A}, "the same ISR, for its epoch"
    assert world.commit() == 10
    world.grant(ME, A)
    assert world.commit() == 20
    assert world.propose(ineligible=frozenset({B})) is None


def test_nobody_joins_without_everything_that_is_committed_and_was_before_this_leader():
    world = World(leader(ME, A), epoch_start=8)
    world.end = 10
    world.ack(A, 5)
    assert world.commit() == 5
    world.ack(B, 7)
    assert world.propose() is None, "before this epoch's start"
    world.ack(B, 8)
    assert world.propose() == {ME, A, B}


def test_a_proposal_names_the_registration_of_each_member():
    world = World(leader(ME, A))
    world.ack(A, 0, node_epoch=22)
    world.ack(B, 0, node_epoch=33)
    proposal = world.replicas.propose(high_watermark=Offset(0), leader_end=Offset(0), now=START)
    assert proposal is not None
    assert proposal.isr == (
        IsrMember(ME, NodeEpoch(11)),
        IsrMember(A, NodeEpoch(22)),
        IsrMember(B, NodeEpoch(33)),
    )
    assert (proposal.leader_epoch, proposal.partition_epoch) == (7, 0)


# --- slow replicas --------------------------------------------------------------------------------


def test_a_slow_follower_leaves_if_the_others_are_enough():
    world = World(leader(ME, A, B))
    world.pass_slow_time({A: 3, B: 150})
    assert world.propose() == {ME, A}
    world.grant(ME, A)
    world.pass_slow_time({A: 150})
    assert world.propose() is None, "without A there would be fewer than min.insync.replicas"


@pytest.mark.parametrize(("a", "b"), [(3, 90), (60, 150)])
def test_a_follower_is_slow_only_in_itself_and_beside_the_others(a: int, b: int):
    world = World(leader(ME, A, B), min_insync=1)
    world.pass_slow_time({A: a, B: b})
    assert world.propose() is None


def test_one_slow_ack_does_not_make_a_follower_slow():
    world = World(leader(ME, A, B))
    world.pass_time(1_000, {A: 3, B: 3})
    world.wait(3_000)  # nothing is written, so nothing is known of anybody
    world.pass_time(20, {A: 3, B: 150})
    assert world.propose() is None
    world.pass_time(2_500, {A: 3, B: 5})
    assert world.propose() is None


def test_one_slow_ack_is_not_the_median_where_little_is_written():
    world = World(leader(ME, A, B))
    world.pass_time(20, {A: 3, B: 500})
    assert world.propose() is None
    world.wait(2_500)
    assert world.propose() is None


@pytest.mark.parametrize("epochs", [(22, 22), (22, 23)])
def test_the_time_that_a_follower_was_away_is_not_that_of_its_acks(epochs: tuple[int, int]):
    """What was sent to it never arrived: it asks again, or its process is another one."""
    world = World(leader(ME, A, B))
    for _ in range(3):
        before = world.end
        world.ack(B, before, epochs[0])
        world.pass_time(100, {A: 3})
        world.replicas.note_served(B, world.now)
        world.wait(400)
        world.ack(B, before, epochs[1])
        world.replicas.note_served(B, world.now)
        world.wait(2)
        world.ack(B, world.end, epochs[1])
        epochs = (epochs[1], epochs[1] + 1)
    assert world.replicas._medians(world.now)[B] == 2


def test_followers_of_a_busy_machine_are_not_slow_beside_the_leaders_own_disk():
    world = World(leader(ME, A, B))
    world.pass_slow_time({A: 140, B: 150})  # and 2 ms for the leader's own syncs
    assert world.propose() is None


def test_a_slow_follower_returns_when_it_was_calm_and_later_each_time():
    world = World(leader(ME, A, B))
    for hold_ms in (30_000, 60_000):
        world.pass_slow_time({A: 3, B: 150})
        assert world.propose() == {ME, A}
        world.grant(ME, A)
        world.pass_time(3_020, {A: 3, B: 4})
        assert world.propose() is None, "it is calm from now on"
        world.pass_time(hold_ms - 20, {A: 3, B: 4})
        world.commit()
        assert world.propose() is None
        world.pass_time(20, {A: 3, B: 4})
        world.commit()
        assert world.propose() == {ME, A, B}
        world.grant(ME, A, B)


def test_a_slow_follower_returns_at_once_when_the_others_are_not_enough():
    world = World(leader(ME, A, B))
    world.pass_slow_time({A: 3, B: 150})
    assert world.propose() == {ME, A}
    world.grant(ME, A)
    world.pass_time(100, {A: 3, B: 150})
    assert world.propose() is None
    world.grant(ME)  # A is dead
    assert world.propose(ineligible=frozenset({A})) == {ME, B}, "slow is better than refused"


def test_who_stays_slow_stays_out():
    world = World(leader(ME, A, B))
    world.pass_slow_time({A: 3, B: 150})
    assert world.propose() == {ME, A}
    world.grant(ME, A)
    for _ in range(30):
        world.pass_time(3_000, {A: 3, B: 150})
        world.commit()
        assert world.propose() is None
