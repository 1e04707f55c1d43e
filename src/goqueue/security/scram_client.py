"""SCRAM, the client's side: it proves that it knows the password, and that the server does.

See `goqueue.security.scram` for the messages.
"""

import base64
import hashlib
import hmac
import re
from typing import Final

from goqueue.model.errors import AuthenticationFailed
from goqueue.security.scram import ITERATIONS_MIN, hash_of

ITERATIONS_MOST: Final = 1_000_000  # more would be a server that wants to keep the client busy
_HEADER: Final = "n,,"
_SERVER_FIRST: Final = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=(\d{1,9})(,.*)?")


class ScramClient:
    """One login.  What the server does wrong raises `AuthenticationFailed`."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = hash_of(mechanism)
        self._password = password.encode()
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}"
        self._signature = b""  # that only a server which knows the password can make

    @property
    def first(self) -> bytes:
        return f"{_HEADER}{self._bare}".encode()

    def prove(self, server_first: bytes) -> bytes:
        """The final message.  Takes milliseconds."""
        text = server_first.decode(errors="replace")
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce) or found[1] == self._nonce:
            raise AuthenticationFailed("SCRAM: the server's first message is malformed")
        iterations = int(found[3])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MOST:
            raise AuthenticationFailed(f"SCRAM: the server wants {iterations} iterations")
        try:
            salt = base64.b64decode(found[2], validate=True)
        except ValueError as error:
            raise AuthenticationFailed("SCRAM: the server's salt is not base64") from error
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        binding = base64.b64encode(_HEADER.encode()).decode()
        without_proof = f"c={binding},r={found[1]}"
        return self._sign(salted, without_proof, f"{self._bare},{text},{without_proof}".encode())

    def _sign(self, salted: bytes, without_proof: str, signed: bytes) -> bytes:
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored_key, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._signature = hmac.digest(server_key, signed, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Whether the server knew the password, too."""
        expected = b"v=" + base64.b64encode(self._signature)
        if not self._signature or not hmac.compare_digest(server_final, expected):
            raise AuthenticationFailed(
                "SCRAM: the server does not know the password: is it the right one?"
            )
