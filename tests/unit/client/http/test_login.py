"""What a client shows over HTTP."""

import base64
import ssl
from pathlib import Path

import pytest

from goqueue.client.errors import BadLogin
from goqueue.client.http.login import Login, authorization, verification
from tests.conformance.certificates import Authority


def test_a_key_or_a_user_with_its_password_becomes_the_header():
    assert authorization({}) == {}
    assert authorization({"api_key": "gq_1", "user": None}) == {"Authorization": "Bearer gq_1"}
    pair = base64.b64encode("zoë:pä:ss".encode()).decode()
    assert authorization({"user": "zoë", "password": "pä:ss"}) == {"Authorization": f"Basic {pair}"}


@pytest.mark.parametrize(
    ("login", "problem"),
    [
        (Login(api_key="hidden", user="a", password="hidden"), "one of them"),
        (Login(user="a"), "belong together"),
        (Login(password="hidden"), "belong together"),
        (Login(user="a:b", password="hidden"), "no colon"),
        (Login(api_key="hidden\n"), "copied whole"),
        (Login(api_key="hidden\u2026"), "copied whole"),
    ],
)
def test_half_a_login_is_refused_without_telling_the_secret(login: Login, problem: str):
    with pytest.raises(BadLogin, match=problem) as caught:
        authorization(login)
    assert "hidden" not in str(caught.value)


def test_an_authority_of_ones_own_is_trusted_alone(tmp_path: Path):
    authority = Authority(tmp_path)
    context = verification("https://queue:1", {"ca_file": authority.file})
    assert len(context.get_ca_certs()) == 1
    assert verification("http://queue:1", {}).verify_mode is ssl.CERT_NONE
    with pytest.raises(BadLogin, match="cert_file"):
        verification("https://queue:1", {"cert_file": str(tmp_path / "none.pem")})
