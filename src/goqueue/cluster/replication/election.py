"""Who leads a partition next.

    an in-sync replica           has everything that was ever committed
    an eligible one (ELR)        left the ISR when that was too small to commit anything since
    with unclean elections only: the last known leader, then anybody; committed records may be lost
    nobody                       the ISR is kept, and who comes back from it leads

See KIP-966 for the ELR.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec

from goqueue.cluster.replication.roles import effective_min_insync
from goqueue.model.ids import NodeId


class Election(msgspec.Struct, frozen=True):
    leader: NodeId | None
    isr: frozenset[NodeId]
    is_unclean: bool = False


def choose_leader(
    replicas: Sequence[NodeId],
    *,
    isr: Collection[NodeId],
    elr: Collection[NodeId] = (),
    last_known_leader: NodeId | None = None,
    is_available: Callable[[NodeId], bool],
    allows_unclean: bool = False,
) -> Election:
    """`replicas` in the order of preference; `is_available`: registered, and not fenced."""
    live = [node for node in replicas if is_available(node)]
    in_sync = [node for node in live if node in isr]
    if in_sync:
        return Election(in_sync[0], frozenset(in_sync))
    eligible = [node for node in live if node in elr]
    if eligible:
        return Election(eligible[0], frozenset((eligible[0],)))
    if allows_unclean and live:
        chosen = last_known_leader if last_known_leader in live else live[0]
        assert chosen is not None
        return Election(chosen, frozenset((chosen,)), is_unclean=True)
    return Election(None, frozenset(isr))


def eligible_after(
    *,
    isr_before: Collection[NodeId],
    isr: Collection[NodeId],
    elr_before: Collection[NodeId],
    lost_data: Collection[NodeId] = (),
    min_insync_replicas: int,
    replication_factor: int,
) -> frozenset[NodeId]:
    """The ELR once the ISR is `isr`.

    With too few in sync nothing is committed, so whoever was in sync just before stays complete.
    """
    if len(isr) >= effective_min_insync(min_insync_replicas, replication_factor):
        return frozenset()
    return frozenset({*isr_before, *elr_before} - set(isr) - set(lost_data))
