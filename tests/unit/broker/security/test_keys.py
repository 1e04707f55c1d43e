"""API keys as a broker keeps and checks them."""

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed
from goqueue.security import Principal
from tests.unit.broker.brokers import CONFIG, play

AUTH = msgspec.structs.replace(CONFIG, auth=AuthConfig(enabled=True))


def test_a_key_that_is_right_wrong_expired_and_gone() -> None:
    async def story(broker: Broker) -> None:
        text, key = await broker.api_keys.create("ci", "builder", ("producer",), 60_000)
        found = await broker.logins.check_api_key(text)
        assert found == Principal("builder", ("producer",))
        wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
        with pytest.raises(AuthenticationFailed, match="unknown, or was removed"):
            await broker.logins.check_api_key(wrong)
        await broker.environment.clock.sleep(61)
        with pytest.raises(AuthenticationFailed, match="has expired"):
            await broker.logins.check_api_key(text)
        await broker.api_keys.remove(key.key_id)
        with pytest.raises(AuthenticationFailed, match="unknown, or was removed"):
            await broker.logins.check_api_key(text)

    play(story, AUTH)


def test_use_is_noted_without_a_write_and_written_now_and_then() -> None:
    async def story(broker: Broker) -> None:
        text, key = await broker.api_keys.create("ci", "ci", (), None)
        other, gone = await broker.api_keys.create("gone", "ci", (), None)
        assert broker.api_keys.describe_all()[0].last_used_at == 0
        version = broker.metadata.security.version
        for _ in range(50):
            await broker.logins.check_api_key(text)
        await broker.logins.check_api_key(other)
        used_at = broker.environment.clock.now()
        (shown, _) = broker.api_keys.describe_all()
        assert abs(shown.last_used_at - used_at) < 1000
        assert broker.metadata.security.version == version
        await broker.api_keys.remove(gone.key_id)
        await broker.environment.clock.sleep(3_700)
        kept = broker.metadata.security.api_keys
        assert kept[key.key_id].last_used_at == shown.last_used_at
        assert list(kept) == [key.key_id]  # what was removed stays so
        assert broker.metadata.security.version == version + 2
        await broker.environment.clock.sleep(3_700)
        assert broker.metadata.security.version == version + 2

    play(story, CONFIG)
