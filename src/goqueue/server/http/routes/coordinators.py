"""Which node coordinates each shard of groups and transactions."""

from typing import Final, Literal

from goqueue.api.cluster import CoordinatorBody, CoordinatorList
from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.cluster import NO_LEADER, PartitionState
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.gathering import answers
from goqueue.server.http.routes.family import Routes

Kind = Literal["groups", "transactions"]
Sizes = dict[int, int]  # by shard

TOPICS: Final[dict[Kind, str]] = {"groups": GROUPS_TOPIC, "transactions": TRANSACTIONS_TOPIC}

routes = Routes("cluster")


class ShardSizesHere(Verb[dict[str, Sizes]], frozen=True):
    """How many groups, and transactional ids, are in the shards that a node leads."""

    name = "shard_sizes"
    reply_type = dict[str, Sizes]


@answers(ShardSizesHere)
async def _sizes_here(broker: Broker, _: ShardSizesHere) -> dict[str, Sizes]:
    groups, transactions = broker.groups.shards, broker.transactions.shards
    return {
        "groups": {shard: host.ahead.group_count for shard, host in groups.items()},
        "transactions": {shard: host.ahead.id_count for shard, host in transactions.items()},
    }


@routes.get("/admin/coordinators", "List who coordinates groups and transactions")
async def list_coordinators(broker: TheBroker) -> CoordinatorList:
    """A shard is a partition of `__groups` or `__transactions`; an id belongs to one by its hash.

    Who leads the partition coordinates, as the answering node knows.  A broker that is alone has
    one shard of each.
    """
    states = {kind: broker.coordinator_states(topic) for kind, topic in TOPICS.items()}
    sizes = await _ask_sizes(broker, states)
    found: list[CoordinatorBody] = []
    for kind, some in states.items():
        if some is None:
            found.append(_alone(broker, kind, sizes.get(int(broker.node_id), {}).get(kind, {})))
            continue
        for shard, state in enumerate(some):
            size = sizes.get(int(state.leader), {}).get(kind, {}).get(shard)
            found.append(_body(kind, shard, state, size))
    return CoordinatorList(found)


async def _ask_sizes(
    broker: Broker, states: dict[Kind, list[PartitionState] | None]
) -> dict[int, dict[str, Sizes]]:
    """What each coordinator says, by node; without those that do not answer."""
    if broker.others is None:
        return {int(broker.node_id): await _sizes_here(broker, ShardSizesHere())}
    leaders = {state.leader for some in states.values() for state in some or ()} - {NO_LEADER}
    answered = await broker.others.ask_each(
        {node: ShardSizesHere() for node in leaders or {broker.node_id}}
    )
    return {int(node): each for node, each in answered.items() if isinstance(each, dict)}


def _body(kind: Kind, shard: int, state: PartitionState, size: int | None) -> CoordinatorBody:
    return CoordinatorBody(
        kind,
        shard,
        None if state.leader == NO_LEADER else int(state.leader),
        int(state.leader_epoch),
        list(map(int, state.replicas)),
        list(map(int, state.isr)),
        size,
    )


def _alone(broker: Broker, kind: Kind, sizes: Sizes) -> CoordinatorBody:
    me = int(broker.node_id)
    return CoordinatorBody(kind, 0, me, 0, [me], [me], sizes.get(0))
