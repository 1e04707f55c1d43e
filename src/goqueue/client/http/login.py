"""What a client shows to say who it is, and whom it trusts."""

import base64
import ssl
from typing import TypedDict

from goqueue.client.errors import BadLogin
from goqueue.client.tls import show_certificate, tls_context


class Login(TypedDict, total=False):
    api_key: str | None
    user: str | None
    """With `password`, instead of an API key."""
    password: str | None
    ca_file: str | None
    """Certificates (PEM) of the authority that signed the server's; else this machine's count."""
    cert_file: str | None
    """The client's own certificate (PEM): with it no password may be needed."""
    key_file: str | None
    """Its key, unless `cert_file` has both."""


def authorization(login: Login) -> dict[str, str]:
    """The header; raises `BadLogin` for what makes no sense, and never tells the secret."""
    api_key, user, password = login.get("api_key"), login.get("user"), login.get("password")
    if api_key:
        if user or password:
            raise BadLogin("an API key and a user: give one of them")
        if not api_key.isascii() or not api_key.isprintable():
            raise BadLogin("the API key has characters that no key has: was it copied whole?")
        return {"Authorization": f"Bearer {api_key}"}
    if user is None and password is None:
        return {}
    if not user or password is None:
        raise BadLogin("user and password belong together: give both, or neither")
    if ":" in user:
        raise BadLogin("over HTTP a user's name has no colon: make it an API key")
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def verification(base_url: str, login: Login) -> ssl.SSLContext:
    """Made once for all connections: reading the machine's certificates takes longer than most
    requests, and plain HTTP needs none."""
    cert_file, key_file = login.get("cert_file"), login.get("key_file")
    if ca_file := login.get("ca_file"):
        return tls_context(ca_file, cert_file, key_file)
    import httpx  # here: who speaks Kafka needs the struct, and not 100 ms of another client

    context = httpx.create_ssl_context(verify=not base_url.startswith("http:"))
    show_certificate(context, cert_file, key_file)
    return context
