"""The server's configuration: one frozen tree, unknown keys refused.

Defaults < TOML file < `GOQUEUE_…` variables < flags; `goqueue.cli` merges them once.  Each field's
docstring is its reference text: unit, trade-off, when to change it.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from goqueue.model.errors import InvalidSetting
from goqueue.model.principal_rules import parse_principal_rule
from goqueue.model.quorum import parse_quorum
from goqueue.model.settings import topic_settings


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `[V6]:PORT` or `:PORT`; raises `InvalidSetting`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidSetting(
            f"{text!r} is not an address: write HOST:PORT, with a port up to 65535"
        )
    return Address(host or "0.0.0.0", int(port))


class KafkaConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:9092"
    """Address of the Kafka listener, HOST:PORT; port 0 picks a free one and prints it."""
    advertised: str = ""
    """Address that clients are told to connect to, when it differs from `listen` (behind NAT, in a
    container). Empty: the address listened on."""
    request_bytes_max: int = 104_857_600
    """Largest request accepted, in bytes. A larger one closes the connection."""
    connections_max: int = 10_000
    """Most open connections; further ones are closed immediately. Each takes a file handle: the
    server lowers this limit at start if the process may open too few files (`ulimit -n`)."""
    connections_per_address_max: int = 0
    """Most open connections from one IP address; 0: as many as there may be in all."""
    idle_ms: int = 600_000
    """A connection without a request for this long is closed."""
    request_ms: int = 60_000
    """A request that has begun to arrive must be whole within this time, and a client that has
    replies to read must read some of them."""
    pending_requests_max: int = 256
    """Requests of one connection in progress before it is no longer read."""
    pending_bytes_max: int = 16_777_216
    """Bytes of one connection's requests in progress before it is no longer read."""
    received_bytes_max: int = 268_435_456
    """Bytes of requests of all connections together, whole ones that wait and parts of others.
    Beyond it the connection is closed that holds the most for the longest. Not below
    `request_bytes_max`."""
    unsent_bytes_max: int = 268_435_456
    """Bytes of replies of all connections together that clients have not read yet. Beyond half of
    it fetch responses become smaller; beyond all of it the connection is closed that holds the
    most for the longest. Raise it for many consumers on slow lines."""
    fetch_bytes_max: int = 16_777_216
    """Largest fetch response, in bytes, whatever the client asks for (one batch always fits)."""
    fetch_sessions_max: int = 1_000
    """Incremental fetch sessions kept; the least recently used goes first."""


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:8080"
    """Address of the HTTP listener, HOST:PORT; port 0 picks a free one and prints it."""
    advertised: str = ""
    """Address that clients of the Kafka listener are told for HTTP, when it differs from `listen`
    (behind NAT, in a container). Empty: the address listened on."""
    body_bytes_max: int = 16_777_216
    """Largest request body, in bytes; a larger one is answered with 413."""
    connections_max: int = 2_000
    """Requests and connections at once before new ones are answered with 503."""
    connections_per_address_max: int = 0
    """Most open connections from one IP address, further ones are closed; 0: as many as there may
    be in all. Behind a proxy all clients come from its address."""
    long_poll_ms_max: int = 60_000
    """Longest wait a client may ask for in a read or poll."""
    publish_timeout_ms: int = 30_000
    """Longest time that a publish waits for its messages to be durable, when a disk is slow. Then
    it is answered with 504; the messages are written and may become durable later, so repeat them
    with the same `Idempotency-Key`. Kafka's producers say in each request how long they wait."""
    idle_seconds: int = 75
    """A kept-alive connection without a request for so long is closed."""
    compress: str = "documents"
    """Which answers are compressed with gzip, for clients that accept it. `documents`: what GET
    gives, but no messages. `all`: messages too, for slow networks; it costs more time than the
    rest of a receive. `none`: nothing."""
    hosts: list[str] = []
    """Names that the server answers to beside its own: `mq.example.com`, `*.example.com`. Requests
    with another `Host` get 421, which protects against DNS rebinding. A listener on loopback
    answers to loopback names and `http.advertised`; any other listener also to IP addresses and to
    names without a dot."""
    cors_origins: list[str] = []
    """Origins whose pages may call this server from a browser, as in `https://app.example.com`.
    They may do everything, so list only pages that you trust. Empty: none."""
    root_path: str = ""
    """Path prefix below which a reverse proxy serves this server, as in `/mq`. Requests are
    answered with it and without it."""
    trusted_proxies: list[str] = []
    """Addresses or networks (`10.0.0.0/8`) of reverse proxies whose `X-Forwarded-For`, `-Host`,
    `-Proto` and `-Prefix` are believed. Empty: none. List only proxies that set these headers
    themselves."""


class TopicsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    auto_create: bool = True
    """Create a topic when a client first produces to it or asks for its metadata."""
    partitions: int = 3
    """Number of partitions of a new topic, unless the request says it."""
    replication: int = 0
    """Replicas of each partition of a new topic, unless the request says it: as many nodes must be
    there. 0: one on each of three machines, fewer if there are fewer machines, so 1 for all nodes
    of one machine. The node that decides (`goqueue cluster status`: controller) uses its own."""
    partitions_max: int = 10_000
    """Most partitions a single topic may have."""
    count_max: int = 10_000
    """Most topics, dead-letter topics included; further ones are refused. Each takes memory, files,
    and time at the start."""
    settings: dict[str, str] = {}
    """Topic settings for topics that do not set them themselves, by their Kafka names."""


class StorageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    open_files_max: int = 4_096
    """File handles kept open at once; more files than that are reopened as they are used."""
    checkpoint_ms: int = 30_000
    """How often written logs are checkpointed: after a crash only what is newer is verified."""
    retention_check_ms: int = 60_000
    """How often retention looks for old segments."""
    compaction_check_ms: int = 15_000
    """How often compacted topics are checked."""
    compaction_memory_bytes: int = 134_217_728
    """Memory for the keys of one compaction run."""
    free_bytes_min: int = 104_857_600
    """Refuse writes before the disk has less room than this, so that recovery still has some.
    0: only when the disk itself refuses."""


class GroupsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session_timeout_ms: int = 30_000
    """A member without a heartbeat for this long times out. Classic members choose their own."""
    session_timeout_ms_min: int = 6_000
    """The shortest session a classic member may choose."""
    session_timeout_ms_max: int = 1_800_000
    """The longest session a classic member may choose."""
    heartbeat_interval_ms: int = 3_000
    """Heartbeat interval of members of large groups of the consumer protocol (KIP-848)."""
    heartbeat_interval_ms_min: int = 300
    """Heartbeat interval of members of small groups: a rebalance is noticed at the next heartbeat.
    It grows with the group, so that no group sends more than a hundred heartbeats a second."""
    initial_rebalance_delay_ms: int = 3_000
    """How long a classic group that was empty waits for more members before its first generation.
    Longer saves rebalances when a fleet starts; 0 suits tests and single consumers."""
    rebalance_timeout_ms: int = 60_000
    """Time to give up partitions, for members that name none."""
    members_max: int = 10_000
    """Members of one group; further joins are refused."""
    member_metadata_bytes_max: int = 1_048_576
    """Largest metadata of a member (subscriptions, ids) and largest assignment of a member, in
    bytes. Both are kept in memory and written to the log."""
    offset_retention_ms: int = 604_800_000
    """How long committed offsets are kept after the last member of their group has left."""
    offset_check_interval_ms: int = 600_000
    """How often groups are checked for expired offsets and for being empty."""
    offset_metadata_bytes_max: int = 4_096
    """The longest text a client may attach to a committed offset."""


class SchedulesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count_max: int = 100_000
    """Most recurring schedules; further ones are refused. Each takes some 2 kB of memory on the
    node that runs them, and its message."""
    runs_kept: int = 20
    """Runs of each schedule that its history shows, the newest ones; each takes some 150 bytes of
    memory. 0 keeps none."""


class ClusterConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quorum: str = "local"
    """Where the metadata is kept: topics, their settings, producer ids. `local`: in the data
    directory. `etcd://HOST:PORT,HOST:PORT`: in etcd, for several nodes without a single point of
    failure (they need `listen`, too), or one whose metadata must outlive its disk; `etcds://` over
    TLS. A path is the prefix of all keys (`/goqueue`): one for each cluster.
    A data directory stays with what it was first started with. See docs/guides/quorum.md."""
    listen: str = ""
    """Address of the listener for the other nodes of the cluster, HOST:PORT. Empty: this broker is
    alone. Off loopback it demands a `secret_file`, and certificates (`cert_file`, `ca_file`) unless
    `--insecure` says that the network between the nodes is protected in another way."""
    advertised: str = ""
    """Address by which other nodes reach that listener, when it differs from `listen`."""
    seeds: list[str] = []
    """Addresses (HOST:PORT) of cluster listeners: this node joins the cluster that it finds there,
    and follows its metadata. Empty: this node keeps the metadata itself, see `quorum`."""
    coordinators: int = 16
    """Into how many shards groups, and transactions, are divided when a cluster is formed; its
    nodes share them. It is settled then: later the setting changes nothing. A broker that is alone
    has one of each, and so has a cluster that it becomes."""
    session_ms: int = 750
    """A node that the controller does not hear for this long times out: its partitions get other
    leaders. So does a controller that the nodes do not hear. A process that is killed is
    noticed at once, whatever this is. Raise it (to 3000, say), the same on all nodes, where nodes
    are fenced and active again though nobody stopped them: on a machine that is short of processor
    time, on a hypervisor that pauses its guests, or over a network that loses packets. A node that
    hangs, or whose machine lost its power, is replaced that much later."""
    standbys: bool = True
    """Whether nodes that follow a shard of groups or transactions keep its state in memory, as far
    as it is committed, and so take over at once. It takes as much memory as the state has on the
    node that coordinates it (some 340 bytes a committed offset); without it, a node that takes over
    reads the shard's log first."""
    secret_file: str = ""
    """File with the secret that all nodes of the cluster share, at least 16 bytes (`openssl rand
    -hex 32` makes one). Nobody without it may connect to the cluster listener."""
    cert_file: str = ""
    """Certificate (PEM) of this node: the cluster port speaks TLS 1.3, and both sides show a
    certificate that `ca_file` vouches for; names are not compared. All nodes have it, or none.
    A file that changes is read again, without a restart."""
    key_file: str = ""
    """Private key (PEM, without a password) of `cert_file`, unless that file has both."""
    ca_file: str = ""
    """Certificates (PEM) of the authority that vouches for the nodes of this cluster, and for
    nobody else."""
    rack: str = ""
    """Where this node stands: a rack, a room, a zone. Replicas are put in different ones, and
    consumers with the same `client.rack` read from a replica in their own."""
    machine: str = ""
    """The machine that this node runs on. Nodes of one machine fail together, so replicas are put
    on different ones. Empty: the host's name."""
    etcd_user: str = ""
    """Name of a user of etcd, when etcd asks for one."""
    etcd_password_file: str = ""
    """File with the password of `etcd_user`."""
    etcd_ca_file: str = ""
    """Certificates (PEM) of the authorities that vouch for etcd. Empty: those that Python's
    `certifi` has."""
    etcd_certificate_file: str = ""
    """Certificate (PEM) that this node shows to etcd, when etcd asks for one."""
    etcd_key_file: str = ""
    """Private key (PEM) of `etcd_certificate_file`, unless that file has both."""


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cert_file: str = ""
    """Certificate (PEM, with the chain behind it) that the Kafka and HTTP listeners show. Empty:
    they speak no TLS. A file that changes is read again, without a restart."""
    key_file: str = ""
    """Private key (PEM, without a password) of `cert_file`, unless that file has both."""
    ca_file: str = ""
    """Certificates (PEM) of the authorities that vouch for clients."""
    client_auth: str = "none"
    """Whether clients show a certificate: `none`, `requested` or `required`. With one, and with
    `auth.enabled`, they need no password: its subject is who they are."""
    principal_rules: list[str] = []
    """How the subject of a client's certificate becomes a user's name; the first rule that fits
    counts. As Kafka's `ssl.principal.mapping.rules`: `RULE:^CN=([^,]+),.*$/$1/L`, or `DEFAULT` for
    the whole subject. Empty: the common name."""
    min_version: str = "1.2"
    """The oldest version of TLS that clients may use: `1.2` or `1.3`."""


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = False
    """Clients of the Kafka and HTTP listeners must say who they are, and may do what they are
    allowed to. `goqueue server --init-admin NAME` makes the first user."""
    mechanisms: list[str] = []
    """How Kafka's clients may log in (`sasl.mechanism`): SCRAM-SHA-512, SCRAM-SHA-256, PLAIN,
    OAUTHBEARER. Empty: all of them. PLAIN sends the password itself, and OAUTHBEARER a token, so
    they are offered with TLS or on loopback only."""
    init_admin: str = ""
    """A user that is made at the start if there is none at all, with the role admin."""
    init_admin_password_file: str = ""
    """File with its password. Empty: one is made up, and printed once."""
    oauth_jwks: str = ""
    """Where the keys of an identity provider are, to check its tokens (JWT) with: the URL of its
    JWKS, or a file. Empty: tokens are not taken."""
    oauth_issuer: str = ""
    """Who must have made a token (claim `iss`)."""
    oauth_audience: str = ""
    """For whom a token must be (claim `aud`): this server's name at the provider."""
    oauth_principal_claim: str = "sub"
    """The claim of a token that is its user's name."""
    oauth_roles_claim: str = ""
    """The claim that lists roles (admin, producer, consumer, readonly). Empty: a token has none."""
    oauth_tenant_claim: str = ""
    """The claim that names the tenant of its user. Empty: a token has none."""
    acls: bool = True
    """Whether roles and access control lists decide what a user may do. Without it everybody who is
    known may do everything."""
    super_users: list[str] = []
    """Users that may do everything, by name: for those whom certificates or tokens name."""
    allow_health: bool = True
    """Answer `/health`, `/healthz`, `/livez` and `/readyz` to everybody."""
    login_ms: int = 10_000
    """A connection must have logged in within this time."""
    pending_logins_max: int = 1_000
    """Most connections of the Kafka listener that have not logged in yet; further ones are
    closed. Not more than a quarter of them come from one IP address."""
    session_ms: int = 0
    """After so long a Kafka client has to log in again on its connection, which newer clients do by
    themselves (KIP-368; Kafka's `connections.max.reauth.ms`); others are closed, and connect again.
    0: never. A token is good no longer than it says."""
    failed_login_delay_ms: int = 300
    """How long the answer to a wrong password waits; up to sixteen times as long for a user and an
    address that fail again and again. After 5 failures of a user at an address, 20 of an address or
    100 of a user, further tries are refused unchecked for 1 second, then 2, up to 60; not those
    from where that user has logged in before."""


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    """Put on record who was refused, who could not log in, and who changed what; with
    `auth.enabled` only. Ordinary reads and writes that are allowed are not in it."""
    file: str = ""
    """File of JSON lines, one for each event, on every node its own. Empty: `audit/audit.jsonl` in
    the data directory."""
    file_bytes_max: int = 67_108_864
    """When the file has so many bytes it is numbered (`audit.jsonl.1`), and a new one begins.
    0: no file."""
    files_max: int = 10
    """Files that are kept; the oldest goes."""
    topic: bool = True
    """Also write the events of all nodes to the internal topic `__audit`, which `goqueue audit` and
    `GET /admin/audit` search."""
    topic_retention_ms: int = 2_592_000_000
    """How long events stay in the topic; counts when the topic is created."""
    topic_bytes_max: int = 1_073_741_824
    """Size of the topic beyond which its oldest events go; counts when it is created."""
    events_per_second: int = 100
    """Most events a second, over ten seconds, that one node writes of failed logins and refusals;
    further ones are counted. Administrative changes are always written."""
    events_per_second_per_address: int = 10
    """The same for one client's address, so that one that floods does not hide the others."""


class TracesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    """Record what happens to messages, so that `goqueue trace` can tell their journeys. Topics can
    be left out: topic setting `goqueue.trace.enable`."""
    sample_rate: float = 1.0
    """Part of the messages whose journeys are recorded, 0 to 1, of all topics. A topic may have a
    smaller one: topic setting `goqueue.trace.sample.rate`."""
    buffer_events: int = 10_000
    """The newest events of this node, kept in memory. An event is about a whole batch, fetch or run
    of acks, and takes some 300 bytes."""
    history: bool = True
    """Keep events in the internal topic `__traces`, so that journeys can be told after a restart,
    and after the node is gone. Otherwise only the buffer has them."""
    flush_ms: int = 500
    """How often events are written to `__traces`. A crash loses the events since then, not the
    messages that they are about."""
    retention_ms: int = 86_400_000
    """How long events are kept in `__traces`; -1: as long as there is room."""
    retention_bytes: int = 1_073_741_824
    """How many bytes of events a partition of `__traces` keeps; -1: no limit."""
    export: list[str] = []
    """Where else events go, as spans: `stdout`, `jsonl`, `otlp-http`, `otlp-grpc`; several may be
    named. OTLP needs `pip install 'goqueue[otel]'`. Empty: nowhere."""
    otlp_endpoint: str = ""
    """The collector's URL, as in `http://localhost:4318` (HTTP) or `http://localhost:4317` (gRPC).
    Empty: OTEL_EXPORTER_OTLP_ENDPOINT, or the collector's default port on this machine."""
    jsonl_file: str = ""
    """File of `jsonl`, a span a line. Empty: `traces/traces.jsonl` in the data directory."""
    jsonl_bytes_max: int = 10_485_760
    """When the file has so many bytes it is numbered (`traces.jsonl.1`), and a new one begins."""
    jsonl_files_max: int = 10
    """Files that are kept; the oldest goes."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node_id: int = 1
    """This node's number, unique in a cluster."""
    data_dir: str = "./data"
    """Directory of all data."""
    insecure: bool = False
    """Allow listeners on addresses other than loopback without authentication."""
    log_format: str = "auto"
    """`console`, `json`, or `auto`: console at a terminal, JSON in a pipe."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`. `debug` has a line for each request. May be changed
    at run time: SIGHUP, `PUT /admin/log-level`, `goqueue config log-level`."""
    access_log: bool = False
    """Log a line for each request (API or path, result, duration), also at level `info`. On a busy
    server that is many lines, and each takes some 20 microseconds."""
    drain_ms: int = 1_000
    """After SIGTERM, `/readyz` answers 503 for this long before the listeners close, so that a load
    balancer sends its traffic elsewhere first: set it to twice the interval of its health checks.
    Skipped when no client is connected. 0 closes at once."""
    shutdown_seconds: float = 10.0
    """How long open requests may take to finish after SIGTERM."""
    kafka: KafkaConfig = KafkaConfig()
    http: HttpConfig = HttpConfig()
    topics: TopicsConfig = TopicsConfig()
    storage: StorageConfig = StorageConfig()
    groups: GroupsConfig = GroupsConfig()
    schedules: SchedulesConfig = SchedulesConfig()
    traces: TracesConfig = TracesConfig()
    cluster: ClusterConfig = ClusterConfig()
    tls: TlsConfig = TlsConfig()
    auth: AuthConfig = AuthConfig()
    audit: AuditConfig = AuditConfig()


# Settings that a reload (SIGHUP) may change; all others need a restart.  Limits of connections
# apply to connections made after it.
RELOADABLE: Final = frozenset(
    {
        "log_level",
        "access_log",
        "drain_ms",
        "shutdown_seconds",
        "kafka.request_bytes_max",
        "kafka.connections_max",
        "kafka.connections_per_address_max",
        "kafka.idle_ms",
        "kafka.request_ms",
        "kafka.pending_requests_max",
        "kafka.pending_bytes_max",
        "kafka.fetch_bytes_max",
        "topics.auto_create",
        "topics.partitions",
        "topics.replication",
        "storage.checkpoint_ms",
        "storage.retention_check_ms",
        "storage.compaction_check_ms",
        "storage.compaction_memory_bytes",
        "storage.free_bytes_min",
    }
)


def differences(before: Config, after: Config) -> dict[str, Any]:
    """The settings of `after` that `before` has otherwise, by dotted path."""
    old = dict(flatten(msgspec.to_builtins(before)))
    new = dict(flatten(msgspec.to_builtins(after)))
    gone = dict.fromkeys(old.keys() - new.keys())  # of a table, topics.settings say
    return gone | {path: value for path, value in new.items() if old.get(path) != value}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a tree of settings by dotted path."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def reload(before: Config, after: Config) -> Config:
    """`before` with what a reload may change taken from `after`."""
    tree = msgspec.to_builtins(before)
    for path, value in differences(before, after).items():
        if path in RELOADABLE:
            *sections, name = path.split(".")
            branch = tree
            for section in sections:
                branch = branch[section]
            branch[name] = value
    return msgspec.convert(tree, Config)


COORDINATORS_MAX: Final = 256
SESSION_MS_MIN: Final = 500
SESSION_MS_MAX: Final = 60_000
SASL_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOOPBACK = ("localhost", "::1")


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")


def problems_of(config: Config) -> list[str]:
    """Everything that is wrong with a configuration that has the right shape."""
    found: list[str] = []
    for name, text in (
        ("kafka.listen", config.kafka.listen),
        ("http.listen", config.http.listen),
        ("kafka.advertised", config.kafka.advertised),
        ("http.advertised", config.http.advertised),
    ):
        is_listened_on = name.endswith(".listen")
        if not text and not is_listened_on:
            continue
        try:
            address = parse_address(text)
        except InvalidSetting as error:
            found.append(f"{name}: {error}")
            continue
        is_open = is_listened_on and not is_loopback(address.host)
        if is_open and not config.insecure and (lacking := _lacking(config)):
            found.append(
                f"{name}: {address.host} can be reached from other machines, and there is no"
                f" {lacking}; listen on 127.0.0.1, or say --insecure"
            )
    found.extend(_http_problems(config.http))
    found.extend(_tls_problems(config.tls))
    found.extend(_auth_problems(config.auth))
    found.extend(_audit_problems(config.audit))
    try:
        topic_settings(config.topics.settings)
    except InvalidSetting as error:
        found.append(f"topics.settings: {error}")
    if not 1 <= config.cluster.coordinators <= COORDINATORS_MAX:
        found.append(f"cluster.coordinators: must be between 1 and {COORDINATORS_MAX}")
    if not 1 <= config.topics.partitions <= config.topics.partitions_max:
        found.append(f"topics.partitions: must be between 1 and {config.topics.partitions_max}")
    if config.topics.replication < 0:
        found.append("topics.replication: must not be negative")
    if config.kafka.received_bytes_max < config.kafka.request_bytes_max:
        found.append("kafka.received_bytes_max: must not be less than kafka.request_bytes_max")
    for name, value in msgspec.structs.asdict(config.storage).items():
        if isinstance(value, int) and value < 0:
            found.append(f"storage.{name}: must not be negative")
    found.extend(_cluster_problems(config.cluster, insecure=config.insecure))
    if config.node_id < 0:
        found.append("node_id: must not be negative")
    if config.drain_ms < 0:
        found.append("drain_ms: must not be negative")
    if config.log_level not in LOG_LEVELS:
        found.append("log_level: must be debug, info, warning or error")
    if config.log_format not in ("auto", "console", "json"):
        found.append("log_format: must be auto, console or json")
    return found


def _lacking(config: Config) -> str:
    """What a listener needs that strangers can reach."""
    lacking = [] if config.auth.enabled else ["authentication (auth.enabled)"]
    if not config.tls.cert_file:
        lacking.append("encryption (tls.cert_file)")
    return " and no ".join(lacking)


def _tls_problems(tls: TlsConfig) -> Iterator[str]:
    if tls.client_auth not in ("none", "requested", "required"):
        yield "tls.client_auth: must be none, requested or required"
    elif tls.client_auth != "none" and not tls.ca_file:
        yield "tls.ca_file: name the authorities that vouch for clients (or tls.client_auth=none)"
    if tls.min_version not in ("1.2", "1.3"):
        yield "tls.min_version: must be 1.2 or 1.3"
    for name in ("key_file", "ca_file"):
        if getattr(tls, name) and not tls.cert_file:
            yield f"tls.{name}: it needs tls.cert_file, too"
    for rule in tls.principal_rules:
        try:
            parse_principal_rule(rule)
        except InvalidSetting as error:
            yield f"tls.principal_rules: {error}"


def _auth_problems(auth: AuthConfig) -> Iterator[str]:
    for mechanism in auth.mechanisms:
        if mechanism not in SASL_MECHANISMS:
            yield f"auth.mechanisms: {mechanism!r} is not one of {', '.join(SASL_MECHANISMS)}"
    if auth.oauth_jwks:
        for name in ("oauth_issuer", "oauth_audience", "oauth_principal_claim"):
            if not getattr(auth, name):
                yield f"auth.{name}: tokens that anybody made for anybody are not taken: set it"
    if auth.login_ms <= 0:
        yield "auth.login_ms: must be above 0"
    for name in ("failed_login_delay_ms", "session_ms"):
        if getattr(auth, name) < 0:
            yield f"auth.{name}: must not be negative"


def _audit_problems(audit: AuditConfig) -> Iterator[str]:
    for name in ("events_per_second", "events_per_second_per_address", "files_max"):
        if getattr(audit, name) < 1:
            yield f"audit.{name}: must be at least 1"
    if audit.file_bytes_max < 0:
        yield "audit.file_bytes_max: must not be negative"


_ORIGIN: Final = re.compile(r"https?://[^/\s*?#@]+")
_HOST_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")
_ROOT_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def _cluster_problems(cluster: ClusterConfig, *, insecure: bool) -> Iterator[str]:
    try:
        quorum = parse_quorum(cluster.quorum)
        if cluster.seeds and quorum is not None:
            yield "cluster.seeds: nodes on etcd find each other there; leave the seeds out"
    except InvalidSetting as error:
        yield f"cluster.quorum: {error}"
    addresses = [("seeds", seed) for seed in cluster.seeds]
    for name, text in (
        ("listen", cluster.listen),
        ("advertised", cluster.advertised),
        *addresses,
    ):
        try:
            address = parse_address(text) if text else None
        except InvalidSetting as error:
            yield f"cluster.{name}: {error}"
            continue
        is_open = address is not None and not is_loopback(address.host)
        if name == "listen" and is_open and not cluster.secret_file:
            yield (
                f"cluster.listen: {text} can be reached from other machines: give all nodes a"
                " shared secret (cluster.secret_file), or listen on 127.0.0.1"
            )
        if name == "listen" and is_open and not cluster.cert_file and not insecure:
            yield (
                f"cluster.listen: {text} can be reached from other machines, and what nodes send"
                " each other is not encrypted: give each node a certificate (cluster.cert_file,"
                " cluster.ca_file), listen on 127.0.0.1, or say --insecure"
            )
    if bool(cluster.cert_file) != bool(cluster.ca_file):
        yield "cluster.cert_file and cluster.ca_file belong together: set both, or neither"
    if cluster.key_file and not cluster.cert_file:
        yield "cluster.key_file: a key needs its certificate (cluster.cert_file)"
    if not SESSION_MS_MIN <= cluster.session_ms <= SESSION_MS_MAX:
        yield (
            f"cluster.session_ms: must be between {SESSION_MS_MIN} (five heartbeats) and"
            f" {SESSION_MS_MAX}"
        )
    if cluster.seeds and not cluster.listen:
        yield "cluster.seeds: a node of a cluster listens for the others, too: set cluster.listen"


def _http_problems(http: HttpConfig) -> Iterator[str]:
    for host in http.hosts:
        if not _HOST_NAME.fullmatch(host):
            yield f"http.hosts: {host!r} is not a host name: write mq.example.com or *.example.com"
    for origin in http.cors_origins:
        if not _ORIGIN.fullmatch(origin):
            yield f"http.cors_origins: {origin!r} is not an origin: write https://app.example.com"
    if http.compress not in ("documents", "all", "none"):
        yield "http.compress: must be documents, all or none"
    if not _ROOT_PATH.fullmatch(http.root_path):
        yield f"http.root_path: {http.root_path!r} is not a path: write /mq, or nothing"
    for proxy in http.trusted_proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            yield f"http.trusted_proxies: {error}"
