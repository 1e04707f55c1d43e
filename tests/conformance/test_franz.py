"""franz-go's consumer groups, and the requests that only it sends.

The program in `franz/` is built once with the module from the Go proxy; where there is no Go, or no
proxy and nothing in Go's cache, its tests are skipped.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.model.config import AuthConfig
from goqueue.wire.apis import ApiKey
from tests.conformance.conftest import free_port_config
from tests.conformance.group_server import GroupServer
from tests.conformance.raw import RawClient, raw_client
from tests.conformance.server import Server

SOURCE = Path(__file__).with_name("franz")
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
BUILD_S = 300.0
RUN_S = 120.0
COUNT = 100
PARTITIONS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    server = GroupServer(tmp_path_factory.mktemp("franz"))
    server.start()
    yield server
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture(scope="session")
def franz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built."""
    if GO is None:
        pytest.skip("needs Go")
    if go("mod", "download").returncode:
        pytest.skip("needs the Go module proxy, and a Go as new as franz/go.mod asks for")
    program = tmp_path_factory.mktemp("go") / "franz"
    built = go("build", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr
    return program


def go(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert GO is not None
    return subprocess.run(
        [GO, *arguments],
        cwd=SOURCE,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )


def run(franz: Path, *arguments: str, scram: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(franz), *arguments, str(COUNT)],
        env={**os.environ, "FRANZ_SCRAM": scram},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.mark.timeout(BUILD_S + RUN_S)
@pytest.mark.parametrize("balancer", ["range", "cooperative-sticky"])
def test_members_of_a_classic_group_take_over_at_the_committed_offsets(
    franz: Path, server: GroupServer, balancer: str
) -> None:
    topic = server.topic(PARTITIONS)
    done = run(franz, server.address, topic, f"{topic}-readers", balancer)
    assert done.returncode == 0, done.stderr
    read = [line.split() for line in done.stdout.splitlines()]
    assert sorted(int(value) for *_, value in read) == list(range(3 * COUNT))
    phases = [Counter(member for member, *_ in read[at : at + COUNT]) for at in (0, COUNT)]
    assert phases[0] == {"first": COUNT}
    assert set(phases[1]) == {"first", "second"}


@pytest.mark.timeout(BUILD_S + RUN_S)
def test_clients_log_in_by_scram(franz: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret")
    file = str(tmp_path / "password")
    auth = AuthConfig(enabled=True, init_admin="root", init_admin_password_file=file)
    server = Server(msgspec.structs.replace(free_port_config(tmp_path / "data"), auth=auth)).start()
    try:
        body = {"name": "t", "partitions": PARTITIONS}
        httpx.post(f"http://{server.http_address}/topics", json=body, auth=("root", "s3cret"))
        for strength in ("256", "512"):
            told = run(franz, server.address, "t", "g", "range", scram=f"{strength} root s3cret")
            assert told.returncode == 0, told.stderr
            assert len(told.stdout.splitlines()) == 3 * COUNT
    finally:
        server.stop()


@pytest.fixture
def client(server: GroupServer) -> Iterator[RawClient]:
    with raw_client(server.host_and_port) as client:
        yield client


def test_a_classic_group_does_not_look_at_who_fetches_its_offsets(
    server: GroupServer, client: RawClient
) -> None:
    topic = server.topic(1)
    client.ask(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=f"{topic}-readers",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    )
    for group_id, committed in ((f"{topic}-readers", 7), (f"{topic}-missing", -1)):
        asked = {
            "group_id": group_id,
            "member_id": "stranger",
            "member_epoch": 3,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
        (group,) = client.ask(ApiKey.OFFSET_FETCH, 9, groups=[asked], require_stable=True).groups
        assert group.error_code == 0
        assert [part.committed_offset for part in group.topics[0].partitions] == [committed]
