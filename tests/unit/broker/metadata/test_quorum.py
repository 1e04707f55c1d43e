"""The metadata's log on etcd: what the settings say of it."""

import pytest

from goqueue.broker.metadata.quorum import etcd_log
from goqueue.cluster.consensus import etcd
from goqueue.cluster.consensus.etcd_client import EtcdSettings
from goqueue.model.config import ClusterConfig
from goqueue.model.errors import InvalidSetting
from goqueue.model.quorum import EtcdQuorum
from goqueue.runtime import Environment
from goqueue.testing.sim import World

QUORUM = EtcdQuorum(("http://etcd:2379",), "/goqueue/")


def made(monkeypatch: pytest.MonkeyPatch, config: ClusterConfig, files: dict[str, bytes]) -> object:
    """The settings that the log is made with."""
    monkeypatch.setattr(etcd, "EtcdLog", lambda settings, *_: settings)

    async def main(environment: Environment) -> object:
        for path, content in files.items():
            environment.disk.make_directory(path.rpartition("/")[0])
            file = environment.disk.open(path)
            file.append(content)
            file.close()
        return await etcd_log(environment, config, QUORUM)

    with World(0) as world:
        return world.run(main(world.environment("a")))


def test_a_password_is_the_file_without_the_end_of_its_line(monkeypatch: pytest.MonkeyPatch):
    config = ClusterConfig(etcd_user="ann", etcd_password_file="/secrets/etcd")
    settings = made(monkeypatch, config, {"/secrets/etcd": b"open sesame\n"})
    assert settings == EtcdSettings(
        QUORUM.endpoints, QUORUM.prefix, user="ann", password="open sesame"
    )


def test_without_a_file_there_is_no_password(monkeypatch: pytest.MonkeyPatch):
    settings = made(monkeypatch, ClusterConfig(), {})
    assert settings == EtcdSettings(QUORUM.endpoints, QUORUM.prefix)


def test_a_missing_file_is_named_with_its_setting(monkeypatch: pytest.MonkeyPatch):
    config = ClusterConfig(etcd_password_file="/secrets/etcd")
    with pytest.raises(InvalidSetting, match=r"etcd_password_file.* /secrets/etcd"):
        made(monkeypatch, config, {})


def test_files_of_certificates_are_handed_on(monkeypatch: pytest.MonkeyPatch):
    config = ClusterConfig(etcd_ca_file="ca", etcd_certificate_file="cert", etcd_key_file="key")
    settings = made(monkeypatch, config, {})
    assert isinstance(settings, EtcdSettings)
    assert (settings.ca_file, settings.certificate_file, settings.key_file) == ("ca", "cert", "key")
