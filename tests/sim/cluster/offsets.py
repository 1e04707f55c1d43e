"""Groups that commit rising offsets, and read them back: what was read never goes back."""

import asyncio

from goqueue.broker import Broker
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model.errors import NodeUnreachable, NotCoordinator
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from tests.sim.cluster.clients import Clients, Refused
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld

PLACE = TopicPartition(TopicName("readings"), 0)
GROUPS = 2
REFUSALS_MAX = 10  # when nothing is broken any more


class Offsets(Clients):
    def __init__(self, nodes: ClusterWorld, commits: int = 12) -> None:
        super().__init__(nodes, "offsets")
        self.commits = commits
        self.asked = [0] * GROUPS  # the highest that may be committed
        self.acked = [0] * GROUPS  # the highest that is
        self.seen = [0] * GROUPS

    async def set_up(self) -> None:
        await self.create(PLACE.topic, 1)

    async def run(self) -> None:
        await asyncio.gather(*(self._work(number) for number in range(GROUPS)))

    async def _work(self, number: int) -> None:
        while self.acked[number] < self.commits:
            try:
                if self.draw.random() < 0.6:
                    await self._commit(number)
                else:
                    await self._fetch(number)
            except Refused:
                await self.rest(0.5)
            await self.rest()

    async def _commit(self, number: int) -> None:
        group, offset = _group(number), self.acked[number] + 1
        self.asked[number] = offset
        wanted = OffsetToCommit(PLACE.topic, PLACE.partition, Offset(offset))
        request = CommitRequest(group_id=group, offsets=(wanted,))
        results = await self.ask(self._coordinator(group), lambda node: node.groups.commit(request))
        if any(result.error is not None for result in results):
            raise NodeUnreachable(f"not committed: {results}")
        self.acked[number] = offset

    async def _fetch(self, number: int) -> None:
        group, before = _group(number), self.acked[number]

        async def fetch(broker: Broker) -> int:
            (fetched,) = await broker.groups.fetch([FetchRequest(group_id=group)])
            found = fetched.offsets.get(PLACE)
            return 0 if found is None else found.offset

        host = self._coordinator(group)
        is_newest = self._coordinates(host, group)
        found = await self.ask(host, fetch)
        is_newest = is_newest and self._coordinates(host, group)
        least = max(before, self.seen[number]) if is_newest else 0
        if not least <= found <= self.asked[number]:
            self.note(
                f"{group}: fetched {found} at {host}; {before} was committed, {self.seen[number]}"
                f" was read, {self.asked[number]} was asked for"
            )
        self.seen[number] = max(found, self.seen[number])

    def _coordinates(self, host: str, group: GroupId) -> bool:
        """As the controller says: one that was deposed and has not heard of it may be behind."""
        try:
            return self.nodes.controller.group_coordinator(group) == NUMBERS[host]
        except (KeyError, NotCoordinator):
            return False

    def _coordinator(self, group: GroupId) -> str:
        broker = self.nodes.brokers[self.somewhere()]
        try:
            return self.host_of(broker.group_coordinator(group))
        except NotCoordinator as error:
            raise NodeUnreachable(str(error)) from error

    async def judge(self) -> None:
        for number in range(GROUPS):
            await self._fetch_at_last(number)

    async def _fetch_at_last(self, number: int) -> None:
        """A coordinator that was elected just now may still read its log."""
        for _ in range(REFUSALS_MAX):
            try:
                await self._fetch(number)
                return
            except Refused:
                await self.rest(0.5)
        await self._fetch(number)


def _group(number: int) -> GroupId:
    return GroupId(f"group-{number}")
