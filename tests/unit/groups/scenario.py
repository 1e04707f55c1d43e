"""Scenarios of groups as text (`tests/scenarios.py`).

    a join classic
    ----
    a waits

`a`, `b` … are members; a command without a member is about the group or the world:

    a join classic [topic…] [static=I]     JoinGroup of a client of the classic protocol
    a sync [a=0,1 b=2]                     SyncGroup; the leader names partitions of `orders`
    a join consumer [topic…] [static=I]    ConsumerGroupHeartbeat with epoch 0
    a join                                 the same client joins again
    a heartbeat [silent]                   of either protocol; silent: without what it owns
    a leave [pause]                        of either protocol; pause: epoch -2
    a commit 5 [orders/0] [generation=N]   OffsetCommit of one partition
    committed [orders/0]                   OffsetFetch
    topics orders=4 payments=1             the topics that exist from now on
    advance 10s                            time passes; deadlines on the way are kept
    restart                                the broker restarts: only the log is left
    describe                               the group and its members
    records                                kinds of records written since the last `records`

`testdata/*.txt` are run by `test_scenarios`.
"""

from collections.abc import Iterator
from typing import Any

from goqueue.groups import GroupsConfig, Parked, PartitionSet
from goqueue.groups.embedded import read_assignment
from goqueue.groups.errors import GroupError
from tests.scenarios import milliseconds
from tests.unit.groups.harness import GROUP, ClassicClient, ConsumerClient, Host, topic

Client = ClassicClient | ConsumerClient


class ScenarioWorld:
    def __init__(self) -> None:
        self.host = Host(GroupsConfig(), topic("orders", 4))
        self.clients: dict[str, Client] = {}
        self.waiting: set[str] = set()
        self._written = 0

    def run(self, command: str) -> Iterator[str]:
        """The output of one command, and of the requests that it wakes."""
        first, *rest = command.split()
        try:
            if first in ("topics", "committed", "advance", "restart", "describe", "records"):
                yield from getattr(self, first)(*rest)
            else:
                yield from self.act(first, *rest)
        except GroupError as error:
            yield f"{type(error).__name__}: {self.names(str(error))}"
        yield from self.woken()

    def names(self, text: str) -> str:
        """Member ids replaced by the names of the scenario."""
        for name, client in self.clients.items():
            if client.member_id:
                text = text.replace(client.member_id, name)
        return text

    def woken(self) -> Iterator[str]:
        for name in sorted(self.waiting):
            client = self.clients[name]
            assert isinstance(client, ClassicClient)
            reply = client.reply()
            if reply is not None:
                self.waiting.discard(name)
                yield self.show(name, reply)

    # --- commands of members ----------------------------------------------------------------------

    def act(self, name: str, verb: str, *words: str) -> Iterator[str]:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        yield getattr(self, verb)(name, plain, options)

    def join(self, name: str, words: list[str], options: dict[str, str]) -> str:
        client = self.clients.get(name)
        if words and words[0] in ("classic", "consumer"):
            kind = ClassicClient if words[0] == "classic" else ConsumerClient
            client = kind(self.host, *words[1:], instance_id=options.get("static"))
            self.clients[name] = client
        assert client is not None, f"{name} joins as classic or consumer"
        if isinstance(client, ClassicClient):
            return self.show(name, client.join())
        client.epoch = 0
        return self.show(name, client.heartbeat())

    def sync(self, name: str, words: list[str], options: dict[str, str]) -> str:
        client = self.clients[name]
        assert isinstance(client, ClassicClient)
        shares = {
            self.clients[who]: {"orders": [int(each) for each in partitions.split(",")]}
            for who, partitions in options.items()
        }
        return self.show(name, client.sync(shares))  # type: ignore[arg-type]

    def heartbeat(self, name: str, words: list[str], options: dict[str, str]) -> str:
        client = self.clients[name]
        if isinstance(client, ClassicClient):
            client.heartbeat()
            return f"{name} is in generation {client.generation}"
        return self.show(name, client.heartbeat(silent="silent" in words))

    def leave(self, name: str, words: list[str], options: dict[str, str]) -> str:
        client = self.clients[name]
        if isinstance(client, ClassicClient):
            (left,) = client.leave()
            if left.error is not None:
                raise left.error
        else:
            client.leave(-2 if "pause" in words else -1)
        return f"{name} {'paused' if 'pause' in words else 'left'}"

    def commit(self, name: str, words: list[str], options: dict[str, str]) -> str:
        client = self.clients[name]
        known = client.generation if isinstance(client, ClassicClient) else client.epoch
        where, partition = (words[1:] or ["orders/0"])[0].split("/")
        self.host.commit(
            int(words[0]),
            where,
            int(partition),
            member_id=client.member_id,
            generation=int(options.get("generation", known)),
            instance_id=client.instance_id,
        )
        return f"{name} committed {words[0]} in {where}/{partition}"

    def show(self, name: str, reply: Any) -> str:
        if isinstance(reply, GroupError):
            return f"{name} {type(reply).__name__}: {self.names(str(reply))}"
        if isinstance(reply, Parked):
            self.waiting.add(name)
            return f"{name} waits"
        if hasattr(reply, "assignment"):
            return f"{name} synced, has {show_embedded(reply.assignment)}"
        if hasattr(reply, "generation"):
            leader = f", leader {self.names(reply.leader)}" if reply.leader else ""
            return f"{name} joined generation {reply.generation}{leader}"
        if reply.assigned is None:
            return f"{name} at epoch {reply.member_epoch}"
        return f"{name} at epoch {reply.member_epoch}, has {self.show_partitions(reply.assigned)}"

    def show_partitions(self, partitions: PartitionSet) -> str:
        found = [(self.host.view.find_by_id(each.topic_id), each.partition) for each in partitions]
        return " ".join(sorted(f"{at.name}/{number}" for at, number in found if at)) or "nothing"

    # --- commands of the world --------------------------------------------------------------------

    def topics(self, *counts: str) -> Iterator[str]:
        made = [each.split("=") for each in counts]
        self.host.change_topics(*(topic(name, int(count)) for name, count in made))
        yield "ok"

    def committed(self, where: str = "orders/0") -> Iterator[str]:
        name, partition = where.split("/")
        yield f"{where} {self.host.read_committed(name, int(partition))}"

    def advance(self, span: str) -> Iterator[str]:
        self.host.advance(milliseconds(span))
        yield "ok"

    def restart(self) -> Iterator[str]:
        self.host.restart()
        self.waiting.clear()
        yield "ok"

    def describe(self) -> Iterator[str]:
        group = self.host.run(self.host.machine.describe(GROUP))
        yield f"{group.group_type} group, {group.state}, epoch {group.epoch}"
        for member in group.members:
            if group.group_type == "classic":
                has = show_embedded(member.assignment)
            else:
                has = f"{self.show_partitions(member.assigned)}, {member.state}"
                has += f" at {member.member_epoch}"
                if member.revoking:
                    has += f", gives up {self.show_partitions(member.revoking)}"
            yield f"  {self.names(member.member_id)} ({member.member_type}): {has}"

    def records(self) -> Iterator[str]:
        written, self._written = self.host.log[self._written :], len(self.host.log)
        kinds = [type(self.host.machine.decode(data)).__name__ for data in written]
        yield " ".join(kinds) or "nothing"


def show_embedded(assignment: bytes) -> str:
    partitions = read_assignment(assignment)
    return " ".join(f"{name}/{n}" for name in sorted(partitions) for n in partitions[name]) or (
        "nothing"
    )
