"""Passwords and API keys, checked by a broker."""

from typing import Any

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.broker.security import logins
from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed, LoginThrottled
from goqueue.security import Principal, ScramCredential, parse_client_first, password_matches
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


def test_the_same_work_is_done_whether_a_user_exists_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, ...]] = []

    def note(name: str) -> None:
        real = getattr(logins, name)

        def noting(*given: Any) -> Any:
            done.append((name, *(str(each.iterations) for each in given if is_credential(each))))
            return real(*given)

        monkeypatch.setattr(logins, name, noting)

    def is_credential(value: object) -> bool:
        return isinstance(value, ScramCredential)

    note("stand_in_credential")
    note("password_matches")

    async def story(broker: Broker) -> None:
        await broker.users.put("alice", "one", iterations=4_096)
        works = []
        for user in ("alice", "nobody"):
            done.clear()
            with pytest.raises(AuthenticationFailed):
                await broker.logins.check_password(user, "wrong")
            first = parse_client_first(f"n,,n={user},r=abc".encode())
            server_first = broker.logins.begin_scram("SCRAM-SHA-512", first).server_first
            works.append((list(done), server_first.rpartition(b"i=")[2]))
        assert works[0] == works[1]
        assert works[0][1] == b"4096"

    play(story, AUTH)


def test_who_guesses_is_refused_unchecked_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []
    real = password_matches

    def matches(credential: ScramCredential, password: str) -> bool:
        checked.append(password)
        return real(credential, password)

    monkeypatch.setattr(logins, "password_matches", matches)

    async def story(broker: Broker) -> None:
        await broker.users.put("alice", "one", ())
        await broker.users.put("bob", "two", ())
        assert await broker.logins.check_password("alice", "one", "10.0.0.1") == Principal("alice")
        refused = 0
        for n in range(100):
            with pytest.raises(AuthenticationFailed) as found:
                await broker.logins.check_password(f"user{n % 40}", "guess", "10.6.6.6")
            refused += isinstance(found.value, LoginThrottled)
            if refused:
                assert "try again in" in str(found.value)
        assert refused > 70
        assert broker.logins.throttled == refused
        with pytest.raises(LoginThrottled):  # right, and not looked at
            await broker.logins.check_password("bob", "two", "10.6.6.6")
        assert "two" not in checked
        assert await broker.logins.check_password("bob", "two", "10.0.0.7") == Principal("bob")
        assert await broker.logins.check_password("alice", "one", "10.0.0.1") == Principal("alice")
        await broker.environment.clock.sleep(61)
        assert await broker.logins.check_password("bob", "two", "10.6.6.6") == Principal("bob")

    play(story, AUTH)


def test_a_user_is_not_locked_out_where_it_was_and_wrong_answers_come_later() -> None:
    async def story(broker: Broker) -> None:
        await broker.users.put("alice", "one", ())
        assert await broker.logins.check_password("alice", "one", "10.0.0.1") == Principal("alice")
        clock, took = broker.environment.clock, []
        for _ in range(10):
            began = clock.instant()
            with pytest.raises(AuthenticationFailed, match="the password is wrong"):
                await broker.logins.check_password("alice", "wrong", "10.0.0.1")
            took.append((clock.instant() - began) // 100_000_000)
        assert took == sorted(took)
        assert (took[0], took[-1]) == (3, 48)
        assert await broker.logins.check_password("alice", "one", "10.0.0.1") == Principal("alice")

    play(story, AUTH)
