"""The consensus log on a real etcd: the contract of all engines, and what only a server can do."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from goqueue.cluster.consensus import Index, Snapshot
from goqueue.cluster.consensus.etcd import APPEND_BYTES_MAX, BATCH_BYTES_MAX, EtcdLog, TermTaken
from goqueue.cluster.consensus.etcd_client import Json, KeyValue, ranges, read
from goqueue.model.errors import Fenced, PolicyViolation, QuorumUnavailable, Uncertain
from tests.conformance.etcd_server import EtcdQuorum, EtcdServers
from tests.unit.cluster.consensus.contract import SCENARIOS, Scenario
from tests.unit.cluster.consensus.quorums import append, first_of, read_all


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    servers = EtcdServers(tmp_path_factory.mktemp("etcd"))
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture
def prefix(servers: EtcdServers) -> str:
    """New for each test, and each time it runs."""
    servers.start_missing()
    return uuid.uuid4().hex


@pytest.fixture
async def quorum(servers: EtcdServers, prefix: str) -> AsyncIterator[EtcdQuorum]:
    settings = servers.settings(
        prefix, request_seconds=2.0, give_up_seconds=10.0, watch_seconds=0.5
    )
    quorum = EtcdQuorum(settings)
    yield quorum
    await quorum.close()


@pytest.fixture
async def hasty(servers: EtcdServers, prefix: str) -> AsyncIterator[EtcdQuorum]:
    """Gives up soon."""
    settings = servers.settings(prefix, request_seconds=0.5, give_up_seconds=1.0)
    quorum = EtcdQuorum(settings)
    yield quorum
    await quorum.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
async def test_etcd_keeps_the_contract(scenario: Scenario, quorum: EtcdQuorum):
    await scenario(quorum)


async def test_too_large_an_entry_is_refused_and_the_term_goes_on(quorum: EtcdQuorum):
    log = quorum.connect()
    term = (await log.lead()).term
    with pytest.raises(PolicyViolation, match="67108865 bytes"):
        await log.append(term, Index(0), [b"x" * (APPEND_BYTES_MAX + 1)])
    await log.append(term, Index(0), [b"x" * BATCH_BYTES_MAX])
    assert await log.end() == 1


async def test_pieces_of_an_append_that_is_fenced_are_not_seen_and_go_with_a_snapshot(
    quorum: EtcdQuorum,
):
    old, new = quorum.connect(), quorum.connect()
    old_term = (await old.lead()).term
    put_part, lead = old._put_part, new.lead

    async def put_and_be_fenced(taken: TermTaken, key: bytes, data: bytes) -> None:
        await put_part(taken, key, data)
        await lead()

    old._put_part = put_and_be_fenced  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        await old.append(old_term, Index(0), [b"x" * 800_000, b"y" * 800_000])
    assert await new.end() == 0
    assert await pieces_in(new) == 1
    term = (await new.lead()).term
    large = [b"z" * 800_000, b"z" * 800_000]
    await new.append(term, Index(0), large)
    await new.append(term, Index(2), [b"last"])
    assert await read_all(quorum.connect()) == [*large, b"last"]
    await new.store_snapshot(term, Index(3), [[b"S"]])
    assert await pieces_in(new) == 0


async def pieces_in(log: EtcdLog) -> int:
    keys = log._keys
    (found,) = ranges(await log._etcd.read(read(keys.pieces, keys.pieces[:-1] + b"0")))
    return len(found)


async def test_entries_below_a_snapshot_are_removed(quorum: EtcdQuorum):
    log = quorum.connect()
    term = (await log.lead()).term
    for n in range(5):
        await append(log, term, b"%d" % n)
    await log.store_snapshot(term, Index(4), [[b"S"]])
    first = await first_of(quorum.connect(), Index(1))
    assert isinstance(first, Snapshot)
    assert await read_all(quorum.connect()) == [b"S", b"4"]


async def test_append_to_a_stopped_server_is_uncertain_and_leading_again_tells(
    servers: EtcdServers, hasty: EtcdQuorum
):
    log = hasty.connect()
    term = (await log.lead()).term
    await log.append(term, Index(0), [b"a"])
    servers.members[0].suspend()
    try:
        first = asyncio.ensure_future(log.append(term, Index(1), [b"b"]))
        await asyncio.sleep(0)  # it is on its way, and the next one waits behind it
        second = asyncio.ensure_future(log.append(term, Index(2), [b"c"]))
        with pytest.raises(Uncertain):
            await first
        with pytest.raises(Fenced):
            await second
        with pytest.raises(QuorumUnavailable):
            await log.end()
        with pytest.raises(QuorumUnavailable):
            await log.lead()
    finally:
        servers.members[0].send(signal.SIGCONT)
    servers.wait_for_leader()
    with pytest.raises(Fenced):
        await log.append(term, Index(1), [b"d"])
    await log.lead()
    found = await read_all(log)
    assert found in ([b"a"], [b"a", b"b"])  # whichever: it stays so
    assert await read_all(hasty.connect()) == found


async def test_readers_that_hang_up_do_no_harm_to_the_server(
    servers: EtcdServers, quorum: EtcdQuorum
):
    """A transaction that only reads would end this old etcd."""
    log = quorum.connect()
    await append(log, (await log.lead()).term, b"a")
    for _ in range(5):
        servers.members[0].suspend()
        reads = [asyncio.ensure_future(log.end()) for _ in range(50)]
        await asyncio.wait(reads, timeout=0.1)
        for each in reads:
            each.cancel()
        servers.members[0].send(signal.SIGCONT)
        await asyncio.gather(*reads, return_exceptions=True)
        assert await log.end() == 1
    assert servers.members[0].is_running()


async def test_server_that_is_not_there_is_unavailable(servers: EtcdServers, hasty: EtcdQuorum):
    from goqueue.cluster.consensus.etcd import EtcdLog
    from goqueue.runtime import real_environment

    environment = real_environment(1)
    settings = servers.settings("x", endpoints=["http://127.0.0.1:1"], give_up_seconds=0.1)
    log = EtcdLog(settings, environment.clock, environment.random)
    with pytest.raises(QuorumUnavailable):
        await log.lead()
    await log.close()


async def test_first_endpoint_that_answers_is_used(servers: EtcdServers, prefix: str):
    settings = servers.settings(prefix, endpoints=["http://127.0.0.1:1", *servers.endpoints])
    quorum = EtcdQuorum(settings)
    log = quorum.connect()
    await append(log, (await log.lead()).term, b"a")
    assert await read_all(log) == [b"a"]
    assert [each.is_leader for each in await log.members()] == [True]
    await quorum.close()


async def test_requests_that_arrive_once_more_and_late_change_nothing(quorum: EtcdQuorum):
    """As a network may deliver them: each one again, after each later one, under the same term."""
    log = quorum.connect()
    client, sent = log._etcd, list[tuple[str, Json]]()
    ask = client.ask

    async def note(path: str, request: Json) -> Json:
        if "request_put" in str(request):
            sent.append((path, request))
        return await ask(path, request)

    async def state() -> list[KeyValue]:
        """All keys but parts of snapshots: one that is left over is removed with the next."""
        keys = log._keys
        found = ranges(await client.read(read(keys.term), read(keys.snapshot)))
        found += ranges(await client.read(read(keys.log, keys.log_end)))
        return [each for some in found for each in some]

    async def deliver_all_again() -> None:
        before = await state()
        for path, request in sent:
            await ask(path, request)
            assert await state() == before, request

    client.ask = note  # type: ignore[method-assign]
    term = (await log.lead()).term
    for number in range(3):
        await append(log, term, b"%d" % number, b"more")
        await deliver_all_again()
        await log.store_snapshot(term, Index(2 * number + 1), [[b"S%d" % number]])
        await deliver_all_again()
    assert await read_all(quorum.connect()) == [b"S2", b"more"]
