"""How a client checks a server's certificate, and shows its own."""

import ssl

from goqueue.client.errors import BadLogin


def tls_context(
    ca_file: str | None = None, cert_file: str | None = None, key_file: str | None = None
) -> ssl.SSLContext:
    """Without `ca_file`, the authorities count that this machine trusts.  Raises `BadLogin`."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise BadLogin(f"ca_file {ca_file}: {_reason(error)}") from error
    show_certificate(context, cert_file, key_file)
    return context


def show_certificate(context: ssl.SSLContext, cert_file: str | None, key_file: str | None) -> None:
    """The client's own, if there is one; the key may be in the same file.  Raises `BadLogin`."""
    if cert_file is None:
        if key_file is not None:
            raise BadLogin("key_file without cert_file: a key needs its certificate")
        return
    try:
        # A key with a password would be asked for at the terminal.
        context.load_cert_chain(cert_file, key_file, password=_refuse_password)
    except (OSError, ValueError) as error:
        files = cert_file if key_file is None else f"{cert_file}, key_file {key_file}"
        raise BadLogin(f"cert_file {files}: {_reason(error)}") from error


def _refuse_password() -> str:
    raise ValueError("the key has a password: give one without")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not PEM, or certificate and key do not belong together ({error.reason or error})"
    return getattr(error, "strerror", None) or str(error)
