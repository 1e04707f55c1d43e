"""Who asks: a user, as a password, a certificate, a token or a key has shown it."""

from typing import Final

import msgspec

USER: Final = "User"


class Principal(msgspec.Struct, frozen=True, gc=False):
    """Kafka writes it `User:alice`, and so do ACLs."""

    name: str
    roles: tuple[str, ...] = ()  # that came with it, beside those that its user has
    tenant: str = ""  # that its token names

    def __str__(self) -> str:
        return f"{USER}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")  # whoever does not have to say who it is
