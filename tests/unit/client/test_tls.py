"""Which certificates a client trusts, and which it shows."""

import ssl
from pathlib import Path

import pytest

from goqueue.client.errors import BadLogin
from goqueue.client.tls import tls_context
from tests.conformance.certificates import Authority


def test_only_the_authority_that_is_named_is_trusted(tmp_path: Path):
    authority = Authority(tmp_path)
    context = tls_context(authority.file, *authority.issue("alice"))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("alice")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    with pytest.raises(BadLogin, match=r"ca_file .*none\.pem: No such file"):
        tls_context(str(tmp_path / "none.pem"))
    with pytest.raises(BadLogin, match=r"ca_file .*nonsense\.pem"):
        tls_context(str(nonsense))
    with pytest.raises(BadLogin, match="do not belong together"):
        tls_context(authority.file, certificate, authority.issue("bob")[1])
    with pytest.raises(BadLogin, match="key_file without cert_file"):
        tls_context(authority.file, None, key)


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path):
    from cryptography.hazmat.primitives import serialization as form

    authority = Authority(tmp_path)
    certificate, key = authority.issue("alice")
    loaded = form.load_pem_private_key(Path(key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        loaded.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"pw")
        )
    )
    with pytest.raises(BadLogin, match="the key has a password"):
        tls_context(authority.file, certificate, str(locked))
