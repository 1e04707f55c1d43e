"""API keys: `gq_` and 64 hexadecimal digits, of which the first 16 are the key's id.

A key stands for a user, and may have roles of its own.  What is kept of it does not let anybody in.
"""

import re
from typing import Final

import msgspec

from goqueue.model.errors import AuthenticationFailed, InvalidRequest
from goqueue.security.scram import SALT_BYTES, ScramCredential, derive_credential

MECHANISM: Final = "SCRAM-SHA-256"
KEY_BYTES: Final = 32  # of randomness
NAME_LENGTH_MAX: Final = 200

_KEY: Final = re.compile(r"gq_([0-9a-f]{16})([0-9a-f]{48})")


class ApiKey(msgspec.Struct, frozen=True):
    key_id: str
    name: str  # for people
    user: str
    credential: ScramCredential
    roles: tuple[str, ...] = ()
    created_at: int = 0  # milliseconds
    expires_at: int = 0  # 0: never
    last_used_at: int = 0  # 0: not that anybody knows; within an hour


def make_api_key(
    random: bytes, name: str, user: str, roles: tuple[str, ...], created_at: int, expires_at: int
) -> tuple[str, ApiKey]:
    """The key as its user gets it, once, and what is kept.  Takes milliseconds.

    `random` are `KEY_BYTES` and `SALT_BYTES` more.
    """
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise InvalidRequest(f"a key's name has 1 to {NAME_LENGTH_MAX} characters")
    digits, salt = random[:KEY_BYTES].hex(), random[KEY_BYTES : KEY_BYTES + SALT_BYTES]
    text = f"gq_{digits}"
    key_id, secret = parse_api_key(text)
    credential = derive_credential(MECHANISM, secret, salt)
    return text, ApiKey(key_id, name, user, credential, roles, created_at, expires_at)


def parse_api_key(text: str) -> tuple[str, str]:
    """Its id and its secret; raises `AuthenticationFailed`."""
    found = _KEY.fullmatch(text.strip())
    if found is None:
        raise AuthenticationFailed("that is not an API key: they are `gq_` and 64 digits")
    return f"key_{found[1]}", found[2]
