"""Apache Kafka's Java clients and tools log in by each mechanism, and manage ACLs.

As `test_java.py`: slow, and skipped where there is no Java or no Maven.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.guarded import Guarded
from tests.conformance.test_java import java, libraries

__all__ = ["libraries"]  # the fixture: it fetches the tools

PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule",
}
OAUTHBEARER = "OAUTHBEARER"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("guarded"))
    yield guarded
    guarded.server.stop()
    assert "s3cret" not in guarded.server.log()


def command_config(guarded: Guarded, mechanism: str) -> str:
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": guarded.authority.file,
    }
    if mechanism == "certificate":
        both = guarded.directory / "operator-both.pem"
        files = guarded.authority.issue("operator")
        both.write_text("".join(Path(each).read_text() for each in reversed(files)))
        settings |= {"security.protocol": "SSL", "ssl.keystore.type": "PEM"}
        settings["ssl.keystore.location"] = str(both)
    elif mechanism == OAUTHBEARER:
        token = guarded.directory / "token"
        token.write_text(guarded.token())
        settings |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": (
                f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.oauthbearer.FileJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    else:
        module = f'{MODULES[mechanism]} required username="root" password="s3cret";'
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": module}
    file = guarded.directory / f"{mechanism}.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))
    return str(file)


@pytest.mark.parametrize("mechanism", [*MODULES, OAUTHBEARER, "certificate"])
def test_java_writes_and_reads(guarded: Guarded, mechanism: str):
    config, topic = command_config(guarded, mechanism), f"java-{mechanism}"
    at = ("--bootstrap-server", guarded.server.address, "--topic", topic)
    # Java reads tokens from places that its owner allows.
    place = (guarded.directory / "token").as_uri()
    options = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={place}"]
    options += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={guarded.directory / 'token'}"]
    written = "one\ntwo\n"
    java("ConsoleProducer", *at, "--command-config", config, given=written, options=options)
    read = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    login = ("--command-config", config)
    found = java("consumer.ConsoleConsumer", *at, *login, *read, options=options)
    assert sorted(found.split()) == ["one", "two"]


def test_the_tool_for_acls(guarded: Guarded):
    config = command_config(guarded, "SCRAM-SHA-512")
    at = ("--bootstrap-server", guarded.server.address, "--command-config", config)
    who = ("--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders")
    java("AclCommand", *at, "--add", *who)
    listed = java("AclCommand", *at, "--list", "--topic", "orders")
    assert "principal=User:bob" in listed
    assert "operation=READ" in listed
    java("AclCommand", *at, "--remove", "--force", *who)
    assert "User:bob" not in java("AclCommand", *at, "--list", "--topic", "orders")
