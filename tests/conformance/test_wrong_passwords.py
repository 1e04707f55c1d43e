"""Wrong passwords in masses, a short slice of `python -m bench.wrong_passwords`."""

import asyncio
from pathlib import Path

import httpx
import msgspec

from bench.wrong_passwords import Server as Guessed
from bench.wrong_passwords import good_client, guess, publish_times
from goqueue.model.config import AuthConfig
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server

ROOT = ("root", "s3cret")
ATTEMPTS = 1_500


def test_others_are_served_while_guessers_are_refused_and_counted(tmp_path: Path):
    (tmp_path / "password").write_text(ROOT[1])
    file = str(tmp_path / "password")
    auth = AuthConfig(enabled=True, init_admin=ROOT[0], init_admin_password_file=file)
    server = Server(msgspec.structs.replace(free_port_config(tmp_path / "data"), auth=auth)).start()
    url = f"http://{server.http_address}"

    async def story() -> None:
        async with good_client(url, ROOT) as client:
            await publish_times(client, 1)
            guessing = asyncio.create_task(guess(Guessed(url, server.address), ATTEMPTS, 14))
            while not guessing.done():
                await publish_times(client, 5)
            told = await guessing
        assert sum(told.values()) == ATTEMPTS
        assert told.keys() <= {"http 401", "http 429", "kafka 58", "http 503"}, told
        assert told["http 429"] + told["kafka 58"] > ATTEMPTS // 2, told

    asyncio.run(story())
    metrics = httpx.get(f"{url}/metrics", auth=ROOT).text
    server.stop()
    rows = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(rows["goqueue_logins_throttled_total"]) > ATTEMPTS // 2
    assert float(rows['goqueue_audit_events_left_out_total{kind="authentication"}']) > 0
    lines = (tmp_path / "data" / "audit" / "audit.jsonl").read_text().splitlines()
    assert len(lines) < ATTEMPTS
    assert "guess" not in "".join(lines)
    assert "Traceback" not in server.log()
