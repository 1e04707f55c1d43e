"""Who leads next, and who stays eligible."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.replication import Election, choose_leader, eligible_after
from goqueue.model.ids import NodeId

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))
ALL = (ONE, TWO, THREE, FOUR)


def elect(*live: NodeId, **state) -> Election:
    return choose_leader(ALL, is_available=lambda node: node in live, **state)


def test_the_first_in_sync_replica_in_order_leads():
    assert elect(THREE, TWO, isr={ONE, TWO, THREE}) == Election(TWO, frozenset({TWO, THREE}))


def test_else_an_eligible_one():
    found = elect(THREE, FOUR, isr={ONE}, elr={FOUR})
    assert found == Election(FOUR, frozenset({FOUR}))


def test_else_nobody_and_the_isr_is_kept():
    assert elect(THREE, isr={ONE}, elr={TWO}) == Election(None, frozenset({ONE}))


def test_unclean_only_if_allowed_and_the_last_leader_first():
    state = {"isr": {ONE}, "allows_unclean": True, "last_known_leader": FOUR}
    assert elect(THREE, FOUR, **state) == Election(FOUR, frozenset({FOUR}), is_unclean=True)
    assert elect(THREE, **state) == Election(THREE, frozenset({THREE}), is_unclean=True)
    assert elect(**state) == Election(None, frozenset({ONE}))


node_sets = st.frozensets(st.sampled_from(ALL))


@given(node_sets, node_sets, node_sets, st.booleans(), st.sampled_from((None, *ALL)))
def test_a_clean_leader_was_in_sync_or_eligible(live, isr, elr, allows_unclean, last):
    found = elect(*live, isr=isr, elr=elr, allows_unclean=allows_unclean, last_known_leader=last)
    if found.leader is None:
        assert not live & (isr | elr)
        assert not (allows_unclean and live)
        assert found.isr == isr
        return
    assert found.leader in live
    assert found.leader in found.isr
    assert found.isr <= live
    assert found.is_unclean == (not live & (isr | elr))
    if live & isr:
        assert found.isr == live & isr
    elif not found.is_unclean:
        assert found.leader in elr


def eligible(
    before: set[NodeId],
    isr: set[NodeId],
    elr: Collection[NodeId] = (),
    lost_data: Collection[NodeId] = (),
) -> frozenset[NodeId]:
    return eligible_after(
        isr_before=before,
        isr=isr,
        elr_before=elr,
        lost_data=lost_data,
        min_insync_replicas=2,
        replication_factor=3,
    )


def test_who_leaves_an_isr_that_is_too_small_stays_eligible():
    elr = eligible({ONE, TWO}, {ONE})
    assert elr == {TWO}
    elr = eligible({ONE}, {THREE}, elr)
    assert elr == {ONE, TWO}
    assert eligible({THREE}, {THREE, ONE}, elr) == set()
    assert eligible({ONE, TWO}, {ONE}, lost_data={TWO}) == set()
