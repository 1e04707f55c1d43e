"""API keys: what their user gets, and what is kept."""

import pytest

from goqueue.model.errors import AuthenticationFailed, InvalidRequest
from goqueue.security import KEY_BYTES, SALT_BYTES, make_api_key, parse_api_key, password_matches

RANDOM = bytes(range(KEY_BYTES + SALT_BYTES))


def test_a_key_fits_what_is_kept_of_it() -> None:
    text, key = make_api_key(RANDOM, "ci", "builder", ("producer",), 1, 2)
    assert text == "gq_" + RANDOM[:KEY_BYTES].hex()
    key_id, secret = parse_api_key(f" {text} ")
    assert key.key_id == key_id
    assert password_matches(key.credential, secret)
    assert secret not in str(key)
    assert secret not in key.credential.stored_key.hex()


@pytest.mark.parametrize("text", ["", "gq_", "gq_" + "0" * 63, "gq_" + "G" * 64, "0" * 67])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(AuthenticationFailed):
        parse_api_key(text)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_names_are_bounded(name: str) -> None:
    with pytest.raises(InvalidRequest):
        make_api_key(RANDOM, name, "builder", (), 1, 0)
