"""Settings of share groups, set as Kafka's admin clients do."""

from collections.abc import Mapping

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from tests.conformance.server import Server


def set_group(server: Server, group: str, settings: Mapping[str, str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=server.address)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, dict(settings))])
    finally:
        admin.close()
