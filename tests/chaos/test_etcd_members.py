"""The consensus log on three members of etcd, of which one is killed or stopped."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from goqueue.cluster.consensus import ConsensusLog, Index, Term
from goqueue.model.errors import Fenced, GoQueueError, QuorumUnavailable, Uncertain
from tests.conformance.etcd_server import EtcdMember, EtcdQuorum, EtcdServers
from tests.unit.cluster.consensus.histories import record
from tests.unit.cluster.consensus.linearizability import is_linearizable
from tests.unit.cluster.consensus.quorums import append, read_all


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    servers = EtcdServers(tmp_path_factory.mktemp("etcd"), count=3)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture
async def quorum(servers: EtcdServers) -> AsyncIterator[EtcdQuorum]:
    servers.start_missing()
    settings = servers.settings(
        uuid.uuid4().hex, request_seconds=0.3, give_up_seconds=10.0, watch_seconds=0.5
    )
    quorum = EtcdQuorum(settings)
    yield quorum
    await quorum.close()


async def kill_and_restart(servers: EtcdServers, member: EtcdMember) -> None:
    member.kill()
    servers.wait_for_leader()
    member.start()


async def stop_for_a_while(servers: EtcdServers, member: EtcdMember) -> None:
    member.suspend()
    try:
        await asyncio.sleep(1.5)
    finally:
        member.send(signal.SIGCONT)


async def test_appends_go_on_when_the_leader_of_etcd_is_killed(
    servers: EtcdServers, quorum: EtcdQuorum
):
    """With the members' own time-outs: no entry is lost or doubled, and none is refused."""
    log, follower = quorum.connect(), quorum.connect()
    term = (await log.lead()).term
    leader = servers.wait_for_leader()
    for number in range(10):
        await append(log, term, b"%d" % number)
    leader.kill()
    try:
        for number in range(10, 20):
            await append(log, term, b"%d" % number)
    finally:
        leader.start()
    assert await read_all(follower) == [b"%d" % number for number in range(20)]
    assert len(await log.members()) == 3


async def test_minority_answers_nobody(servers: EtcdServers):
    hasty = EtcdQuorum(servers.settings("minority", request_seconds=0.3, give_up_seconds=1.0))
    log = hasty.connect()
    term = (await log.lead()).term
    await append(log, term, b"a")
    others = servers.members[:2]
    for each in others:
        each.suspend()
    try:
        with pytest.raises((Uncertain, QuorumUnavailable)):
            await log.append(term, Index(1), [b"b"])
        with pytest.raises(QuorumUnavailable):
            await log.end()
        with pytest.raises(Fenced):
            await log.append(term, Index(1), [b"c"])
    finally:
        for each in others:
            each.send(signal.SIGCONT)
    servers.wait_for_leader()
    again = await _lead_in_the_end(log)
    found = await read_all(log)
    assert found in ([b"a"], [b"a", b"b"])
    await append(log, again, b"d")
    assert await read_all(hasty.connect()) == [*found, b"d"]
    await hasty.close()


async def _lead_in_the_end(log: ConsensusLog) -> Term:
    while True:
        try:
            return (await log.lead()).term
        except GoQueueError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [kill_and_restart, stop_for_a_while])
@pytest.mark.parametrize("round_number", range(5))
async def test_histories_are_linearizable(
    servers: EtcdServers,
    quorum: EtcdQuorum,
    round_number: int,
    trouble: Callable[[EtcdServers, EtcdMember], Awaitable[None]],
):
    leader = servers.wait_for_leader()
    work = asyncio.ensure_future(record(quorum, str(round_number), rounds=6))
    await trouble(servers, leader)
    assert is_linearizable(await work)
