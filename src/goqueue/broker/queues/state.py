"""Queue groups and the ledgers of their partitions: what queues and dead letters share."""

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.queues.ledgers import Ledger, Ledgers, OnDeadline, settle_all
from goqueue.broker.services import BrokerServices
from goqueue.cluster import Topic
from goqueue.model.ids import GroupId
from goqueue.queue import GroupTable, PartitionState, QueueGroup, QueueRegistry, Where
from goqueue.queue.dead_letter import DeadLetterIndex

NO_DEAD_LETTERS = DeadLetterIndex()


class QueueState:
    """Made before anything is replayed, so that its users can be made too."""

    def __init__(self, services: BrokerServices, on_deadline: OnDeadline) -> None:
        self._services = services
        disk, clock = services.environment.disk, services.environment.clock
        self.table = GroupTable(services.group_configs.queue_settings)
        self.ledgers = Ledgers(disk, clock, services.partitions, self.table, on_deadline)
        self._registry: MachineHost[QueueRegistry] | None = None

    def attach(self, registry: MachineHost[QueueRegistry]) -> None:
        self._registry = registry

    @property
    def registry(self) -> MachineHost[QueueRegistry]:
        assert self._registry is not None, "the broker is not open"
        return self._registry

    async def wait_settled(self) -> None:
        """Return when everything that was decided of queues so far is committed."""
        await settle_all(self.ledgers)
        await self.registry.wait_settled()

    @property
    def groups(self) -> dict[GroupId, QueueGroup]:
        return self.table.groups

    def group(self, group_id: GroupId) -> QueueGroup:
        """Also of one that only has settings; raises `QueueGroupNotFound`."""
        found = self.table.groups.get(group_id)
        if found is not None:
            return found
        if self._services.group_configs.has_queue_settings(group_id):
            return self.visitor(group_id)
        return self.table.group(group_id)

    def visitor(self, group_id: GroupId) -> QueueGroup:
        """The group for who only looks: it has not begun."""
        return QueueGroup(group_id, self._services.group_configs.queue_settings)

    def state(self, where: Where) -> PartitionState | None:
        return self.table.state(where)

    def ledger_of(self, state: PartitionState) -> Ledger | None:
        """The ledger that the state is in; None when it is in none any more."""
        ledger = self.ledgers.find(state.where.topic, state.where.partition)
        if ledger is None or ledger.ahead.states.get(state.where.group_id) is not state:
            return None
        return ledger

    def ledgers_of(self, group_id: GroupId, topic: str | None = None) -> list[Ledger]:
        """Those that the group has begun in, of one topic if it is given."""
        group = self.groups.get(group_id)
        found = [
            self.ledgers.find(*place)
            for place in (() if group is None else group.states)
            if topic in (None, place.topic)
        ]
        return [ledger for ledger in found if ledger is not None]

    async def ledger(self, topic: Topic, partition: int) -> Ledger:
        return await self.ledgers.get(topic, partition)

    def dead_letters(self, topic: str, partition: int) -> DeadLetterIndex:
        """Of a partition of dead letters."""
        ledger = self.ledgers.find(topic, partition)
        return NO_DEAD_LETTERS if ledger is None else ledger.ahead.dead_letters
