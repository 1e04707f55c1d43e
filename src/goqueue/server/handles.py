"""Divides the file handles of the process among log files, connections and the rest."""

from typing import Final

import msgspec

from goqueue.model.config import Config
from goqueue.runtime.handles import SPARE_HANDLES

OTHER_HANDLES: Final = 64 + SPARE_HANDLES  # libraries, listeners, pipes, small files
FILES_SHARE: Final = 4  # at least a quarter is for files, when there are too few for everything


def fit_to_handles(config: Config, handles: int) -> tuple[Config, list[str]]:
    """The settings, with limits lowered to what so many handles suffice for; what was lowered."""
    files, kafka, http = _count_wanted(config)
    if OTHER_HANDLES + files + kafka + http <= handles:
        return config, []
    rest = max(3, handles - OTHER_HANDLES)
    files = min(files, max(1, rest // FILES_SHARE))
    kafka = min(kafka, max(1, (rest - files) * 2 // 3))
    http = min(http, max(2, rest - files - kafka))
    replace = msgspec.structs.replace
    lowered = replace(
        config,
        storage=replace(config.storage, open_files_max=files),
        kafka=replace(config.kafka, connections_max=kafka),
        http=replace(config.http, connections_max=http // 2),
    )
    return lowered, [
        f"{name} is {after} instead of {before}: this process may have {handles} file handles"
        " (raise `ulimit -n`, or LimitNOFILE of the systemd unit)"
        for name, before, after in (
            ("storage.open_files_max", config.storage.open_files_max, files),
            ("kafka.connections_max", config.kafka.connections_max, kafka),
            ("http.connections_max", config.http.connections_max, http // 2),
        )
        if after < before
    ]


def _count_wanted(config: Config) -> tuple[int, int, int]:
    """For files, Kafka's connections and HTTP's, which may be twice its setting."""
    http = 2 * config.http.connections_max
    return config.storage.open_files_max, config.kafka.connections_max, http
