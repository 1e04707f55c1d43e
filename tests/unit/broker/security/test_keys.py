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
