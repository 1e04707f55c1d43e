"""Kafka's settings for a login."""

from pathlib import Path

import pytest

from goqueue.client.errors import BadLogin
from goqueue.client.kafka import NO_LOGIN, default_login, parse_login, read_login

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "hidden",
}


def test_settings_of_kafka_are_understood():
    plain = parse_login({"linger.ms": "5"})
    assert (plain.is_tls, plain.mechanism, plain.context()) == (False, None, None)
    login = parse_login(SCRAM | {"ssl.ca.location": "ca.pem"})
    assert (login.is_tls, login.mechanism, login.user, login.password, login.ca_file) == (
        True,
        "SCRAM-SHA-512",
        "alice",
        "hidden",
        "ca.pem",
    )
    assert "hidden" not in repr(login)


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        ('org.Module required username="alice" password="a\\"b\\\\c";', 'a"b\\c'),
        ("org.Module required username='alice' password='it;s' ;", "it;s"),
    ],
)
def test_a_jaas_configuration_has_user_and_password(jaas: str, password: str):
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "plain"}
    login = parse_login(given | {"sasl.jaas.config": jaas})
    assert (login.is_tls, login.user, login.password) == (False, "alice", password)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"security.protocol": "TLS"}, "choose one of PLAINTEXT"),
        ({"security.protocol": "SSL"}, "set it to SASL_SSL"),
        ({"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "ca.pem"}, "SSL or SASL_SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "choose one of SCRAM"),
        ({"sasl.mechanism": ""}, "choose one of SCRAM"),
        ({"sasl.password": ""}, "are missing"),
    ],
)
def test_what_makes_no_sense_is_refused_without_the_password(change: dict[str, str], problem: str):
    with pytest.raises(BadLogin, match=problem) as caught:
        parse_login(SCRAM | change)
    assert "hidden" not in str(caught.value)


def test_a_file_of_settings_logs_in_whoever_gives_no_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "client.properties"
    lines = [f"{name}={value}" for name, value in SCRAM.items()]
    file.write_text("\n".join(["# as Kafka's tools take them", *lines, "linger.ms = 5", ""]))
    assert read_login(str(file)) == parse_login(SCRAM)
    assert default_login() == NO_LOGIN
    monkeypatch.setenv("GOQUEUE_KAFKA_CONFIG", str(file))
    assert default_login() == parse_login(SCRAM)
    with pytest.raises(BadLogin, match="lacking"):
        read_login(str(tmp_path / "lacking"))


def test_a_token_is_read_from_its_file_whenever_it_is_needed(tmp_path: Path):
    file = tmp_path / "token"
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    login = parse_login(given | {"sasl.oauthbearer.token.endpoint.url": f"file://{file}"})
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert login.read_token() == token
        assert login.for_http()["api_key"] == token
    for url in ("", "https://idp.example.com/token"):
        with pytest.raises(BadLogin, match="from a file"):
            parse_login(given | {"sasl.oauthbearer.token.endpoint.url": url})


def test_the_same_login_for_http():
    shown = parse_login(SCRAM | {"ssl.truststore.location": "ca.pem"})
    assert shown.scheme == "https"
    http = shown.for_http()
    assert (http["user"], http["password"], http["ca_file"]) == ("alice", "hidden", "ca.pem")
    certificate = {"security.protocol": "SSL", "ssl.keystore.location": "me.pem"}
    assert parse_login(certificate).for_http()["cert_file"] == "me.pem"
    assert parse_login({}).for_http() == {}


@pytest.mark.parametrize(
    "store", [{"ssl.truststore.type": "JKS"}, {"ssl.keystore.location": "mine.p12"}]
)
def test_java_stores_are_refused_with_what_to_do(store: dict[str, str]):
    with pytest.raises(BadLogin, match="keytool"):
        parse_login({"security.protocol": "SSL", **store})
