"""SCRAM (RFC 5802, 7677): the server's side of a login that never sends the password.

    client ──> n,,n=alice,r=NONCE                       client first
    server <── r=NONCE+OURS,s=SALT,i=ITERATIONS         server first
    client ──> c=biws,r=NONCE+OURS,p=PROOF              client final
    server <── v=SIGNATURE                              server final: the server knew it, too

What is kept of a password does not let anybody log in.  A user that is not there is asked with a
salt of its own, and refused at the end, so that nobody learns which users there are.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.model.errors import AuthenticationFailed, InvalidRequest

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384  # as in Apache Kafka
ITERATIONS_DEFAULT: Final = 8_192
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 18
MESSAGE_BYTES_MAX: Final = 4_096
PASSWORD_BYTES_MAX: Final = 1_024

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}  # by mechanism
MECHANISMS: Final = tuple(HASHES)

_FIRST: Final = re.compile(r"(n|y|p=[\w.-]+),(a=[^,]*)?,(m=[^,]*,)?n=([^,]+),r=([!-+\--~]+)(,.*)?")
_FINAL: Final = re.compile(r"c=([^,]*),r=([!-+\--~]+)(,.*)?,p=([^,]+)")


class ScramCredential(msgspec.Struct, frozen=True):
    """What is kept of a password, for one mechanism."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def derive_credential(
    mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT
) -> ScramCredential:
    """Takes milliseconds, by intention: not for the event loop."""
    data = password.encode()
    if not data:
        raise InvalidRequest("the password is empty")
    if len(data) > PASSWORD_BYTES_MAX:
        raise InvalidRequest(f"the password has more than {PASSWORD_BYTES_MAX} bytes")
    salted = hashlib.pbkdf2_hmac(hash_of(mechanism), data, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def credential_of(
    mechanism: str, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Of a password that somebody else has salted, as `AlterUserScramCredentials` sends it."""
    name = hash_of(mechanism)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise InvalidRequest(
            f"{iterations} iterations: they must be between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
        )
    if not salt:
        raise InvalidRequest("the salt is empty")
    size = hashlib.new(name).digest_size
    if len(salted_password) != size:
        raise InvalidRequest(
            f"a salted password of {len(salted_password)} bytes: {mechanism} has {size}"
        )
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(mechanism, salt, iterations, stored_key, server_key)


def password_matches(credential: ScramCredential, password: str) -> bool:
    """For mechanisms that send the password.  Takes milliseconds: not for the event loop."""
    if not password or len(password.encode()) > PASSWORD_BYTES_MAX:
        return False
    found = derive_credential(
        credential.mechanism, password, credential.salt, credential.iterations
    )
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def stand_in_credential(
    mechanism: str, user: str, secret: bytes, iterations: Sequence[int] = ()
) -> ScramCredential:
    """For a user that is not there: always the same for its name, and no password fits it.

    `iterations` are those that others have: one of them, so that they do not tell.
    """
    salt = hmac.digest(secret, b"salt:" + user.encode(), "sha256")[:SALT_BYTES]
    key = hmac.digest(secret, b"key:" + user.encode(), hash_of(mechanism))
    chosen = iterations[salt[0] % len(iterations)] if iterations else ITERATIONS_DEFAULT
    return ScramCredential(mechanism, salt, chosen, key, key)


def hash_of(mechanism: str) -> str:
    name = HASHES.get(mechanism)
    if name is None:
        raise InvalidRequest(f"{mechanism!r} is not one of {', '.join(MECHANISMS)}")
    return name


class ClientFirst(msgspec.Struct, frozen=True):
    user: str
    nonce: str
    header: str  # GS2: channel binding and another name to act as
    bare: str  # the rest, which is signed


def parse_client_first(message: bytes) -> ClientFirst:
    text = _text(message)
    found = _FIRST.fullmatch(text)
    if found is None:
        raise AuthenticationFailed("SCRAM: the first message is malformed")
    binding, other_name, extension, user, nonce, _ = found.groups()
    if binding.startswith("p="):
        raise AuthenticationFailed("SCRAM: channel binding is not supported")
    if extension:
        raise AuthenticationFailed("SCRAM: it demands an extension that is not known here")
    name = _unescape(user)
    if other_name and _unescape(other_name[2:]) != name:
        raise AuthenticationFailed("SCRAM: a user may not act as another one")
    header = f"{binding},{other_name or ''},"
    return ClientFirst(name, nonce, header, text[len(header) :])


class ScramExchange:
    """One login, from the client's first message on."""

    def __init__(self, credential: ScramCredential, first: ClientFirst, nonce: str) -> None:
        self._credential = credential
        self._first = first
        self._nonce = first.nonce + nonce
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"

    @property
    def server_first(self) -> bytes:
        return self._server_first.encode()

    def finish(self, client_final: bytes) -> bytes:
        """The server's last message; raises `AuthenticationFailed` if the proof is wrong."""
        text = _text(client_final)
        found = _FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("SCRAM: the final message is malformed")
        binding, nonce, _, proof = found.groups()
        # librdkafka before 2.6.1, which kcat often has, puts its own nonce before ours once more.
        expected = (self._nonce, self._first.nonce + self._nonce)
        if _decode(binding) != self._first.header.encode() or nonce not in expected:
            raise AuthenticationFailed("SCRAM: the final message does not belong to this exchange")
        without_proof = text.rpartition(",p=")[0]
        signed = f"{self._first.bare},{self._server_first},{without_proof}".encode()
        return self._check(_decode(proof), signed)

    def _check(self, proof: bytes, signed: bytes) -> bytes:
        credential, name = self._credential, hash_of(self._credential.mechanism)
        signature = hmac.digest(credential.stored_key, signed, name)
        if len(proof) != len(signature):
            raise AuthenticationFailed("SCRAM: the proof has a wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(name, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise AuthenticationFailed("the user is unknown, or the password is wrong")
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, name))


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationFailed(f"SCRAM: a message of more than {MESSAGE_BYTES_MAX} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("SCRAM: a message is not UTF-8") from error


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # also what is not ASCII
        raise AuthenticationFailed("SCRAM: a value is not base64") from error


def _unescape(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise AuthenticationFailed("SCRAM: the user's name is malformed")
    return name.replace("=2C", ",").replace("=3D", "=")
