"""The metadata's log on etcd, as the settings say."""

from goqueue.cluster.consensus import ConsensusLog
from goqueue.model.config import ClusterConfig
from goqueue.model.errors import InvalidSetting
from goqueue.model.quorum import EtcdQuorum
from goqueue.runtime import Disk, Environment


async def etcd_log(
    environment: Environment, config: ClusterConfig, quorum: EtcdQuorum
) -> ConsensusLog:
    # Only those who use it pay for the import of an HTTP client.
    from goqueue.cluster.consensus.etcd import EtcdLog, EtcdSettings

    disk = environment.disk
    password = await disk.in_background(lambda: _password(disk, config.etcd_password_file))
    settings = EtcdSettings(
        quorum.endpoints,
        quorum.prefix,
        user=config.etcd_user,
        password=password,
        ca_file=config.etcd_ca_file,
        certificate_file=config.etcd_certificate_file,
        key_file=config.etcd_key_file,
    )
    return EtcdLog(settings, environment.clock, environment.random)


def _password(disk: Disk, path: str) -> str:
    """Blocking."""
    if not path:
        return ""
    content = disk.read_file(path)
    if content is None:
        raise InvalidSetting(f"cluster.etcd_password_file: there is no file {path}")
    return content.decode().strip()
