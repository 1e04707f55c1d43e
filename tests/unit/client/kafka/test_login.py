"""Kafka's settings for a login."""

import pytest

from goqueue.client.errors import BadLogin
from goqueue.client.kafka import parse_login

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
