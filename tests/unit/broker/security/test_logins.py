"""Passwords and API keys, checked by a broker."""

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed
from goqueue.security import Principal, parse_client_first
from tests.unit.broker.brokers import CONFIG, play

AUTH = msgspec.structs.replace(CONFIG, auth=AuthConfig(enabled=True, failed_login_delay_ms=300))


def test_a_password_that_is_right_wrong_changed_and_gone() -> None:
    async def story(broker: Broker) -> None:
        clock = broker.environment.clock
        await broker.users.put("alice", "one", ())
        for _ in range(2):  # the second time it is remembered
            assert await broker.logins.check_password("alice", "one") == Principal("alice")
        for user, password in (("alice", "two"), ("nobody", "one"), ("", "")):
            began = clock.instant()
            with pytest.raises(AuthenticationFailed, match="unknown, or the password is wrong"):
                await broker.logins.check_password(user, password)
            assert clock.instant() - began >= 300_000_000
        await broker.users.put("alice", "two")
        with pytest.raises(AuthenticationFailed):
            await broker.logins.check_password("alice", "one")
        assert await broker.logins.check_password("alice", "two") == Principal("alice")
        await broker.users.remove("alice")
        with pytest.raises(AuthenticationFailed):
            await broker.logins.check_password("alice", "two")

    play(story, AUTH)


def test_a_user_that_is_not_there_is_asked_like_any_other() -> None:
    async def story(broker: Broker) -> None:
        await broker.users.put("alice", "one")
        asked = [
            broker.logins.begin_scram(
                "SCRAM-SHA-256", parse_client_first(f"n,,n={user},r=abc".encode())
            ).server_first
            for user in ("alice", "nobody", "nobody")
        ]
        assert len(asked[0]) == len(asked[1])
        assert asked[1].split(b",")[1] == asked[2].split(b",")[1]  # the same salt again

    play(story, AUTH)
