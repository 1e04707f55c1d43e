"""A client of etcd: its JSON gateway over HTTP, with several endpoints.

Everything that the consensus log asks of etcd may be asked twice: reads, and transactions that
compare before they write.  So a request that fails or is not answered goes to the next endpoint,
until one answers or the time is over.  What was sent then may still take effect: `Uncertain`.

Keys and values are base64 in JSON, and numbers are texts, as the gateway wants them.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from goqueue.cluster.consensus.consensus_log import Member
from goqueue.model.errors import InvalidSetting, QuorumUnavailable, Uncertain
from goqueue.runtime import Clock

# httpx lets errors of TLS through that come after the handshake, such as a certificate refused.
BROKEN: Final = (httpx.TransportError, OSError)
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
AUTHENTICATION: Final = 16  # gRPC's UNAUTHENTICATED: the token is missing or too old
TRY_ELSEWHERE: Final = {
    4,
    14,
}  # DEADLINE_EXCEEDED, UNAVAILABLE: no leader, a slow one, or no quorum
RETRY_SECONDS: Final = 0.05

Json = Mapping[str, Any]


class EtcdSettings(msgspec.Struct, frozen=True):
    endpoints: Sequence[str]  # URLs
    prefix: str  # of all keys
    user: str = ""
    password: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    request_seconds: float = 1.0  # for one endpoint's answer, before the next is asked
    give_up_seconds: float = 5.0  # for an answer at all
    watch_seconds: float = 5.0  # without news, before a follower looks for itself


class KeyValue(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes


class EtcdRefusal(QuorumUnavailable):
    """etcd understood, and said no: nothing was changed."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"etcd: {message}")
        self.number = number


class _TryElsewhere(Exception):
    """This endpoint has no answer now."""


class EtcdClient:
    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._current = 0  # endpoint
        self._token = ""
        self._http = httpx.AsyncClient(
            verify=_verification(settings),
            timeout=httpx.Timeout(settings.request_seconds),
            trust_env=False,  # a proxy for the outside world is not for the quorum
        )

    async def close(self) -> None:
        await self._http.aclose()

    # --- asking -----------------------------------------------------------------------------------

    async def read(self, *requests: Json) -> Json:
        """All of it as of one moment, with everything that is committed (see `ranges`).

        Not as a transaction: an etcd before 3.5.7 panics when whoever sent one that only reads
        hangs up before the answer (https://github.com/etcd-io/etcd/issues/14110).
        """
        first = await self.ask("/v3/kv/range", requests[0])
        moment = {"revision": first["header"]["revision"]}
        more = [await self.ask("/v3/kv/range", {**each, **moment}) for each in requests[1:]]
        found = [{"response_range": each} for each in (first, *more)]
        return {"header": first["header"], "responses": found}

    async def transaction(
        self, compare: Sequence[Json], success: Sequence[Json], failure: Sequence[Json] = ()
    ) -> Json:
        request = {"compare": compare, "success": success, "failure": failure}
        return await self.ask("/v3/kv/txn", request)

    async def ask(self, path: str, request: Json) -> Json:
        """The answer; raises `QuorumUnavailable`, or `Uncertain` when it may have been heard."""
        give_up_at = self._clock.instant() + int(self._settings.give_up_seconds * 1e9)
        was_sent, problem = False, ""
        while True:
            try:
                return await self._ask_one(path, request)
            except NOT_SENT as error:
                problem = f"{self._endpoint}: {str(error) or type(error).__name__}"
            except (*BROKEN, _TryElsewhere) as error:
                problem = f"{self._endpoint}: {str(error) or type(error).__name__}"
                was_sent = True
            except EtcdRefusal as refusal:
                if was_sent:  # an earlier try may have been heard
                    raise Uncertain(str(refusal)) from refusal
                raise
            if self._clock.instant() >= give_up_at:
                break
            self._turn()
            await self._clock.sleep(RETRY_SECONDS)
        text = f"etcd gave no answer in {self._settings.give_up_seconds} s; the last try: {problem}"
        raise Uncertain(text) if was_sent else QuorumUnavailable(text)

    async def _ask_one(self, path: str, request: Json) -> Json:
        if self._settings.user and not self._token:
            await self._authenticate()
        response = await self._http.post(
            self._endpoint + path, content=msgspec.json.encode(request), headers=self._headers()
        )
        try:
            return _answer(response.status_code, response.content)
        except EtcdRefusal as refusal:
            if refusal.number == AUTHENTICATION and self._token:
                self._token = ""
                raise _TryElsewhere(str(refusal)) from refusal
            raise

    async def _authenticate(self) -> None:
        body = {"name": self._settings.user, "password": self._settings.password}
        response = await self._http.post(
            self._endpoint + "/v3/auth/authenticate", content=msgspec.json.encode(body)
        )
        self._token = _answer(response.status_code, response.content)["token"]

    def _headers(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    @property
    def _endpoint(self) -> str:
        return self._settings.endpoints[self._current]

    def _turn(self) -> None:
        self._current = (self._current + 1) % len(self._settings.endpoints)

    # --- watching ---------------------------------------------------------------------------------

    async def watch(self, request: Json) -> AsyncGenerator[list[KeyValue], None]:
        """What is put, until there is no news for a while or the watch breaks; then look again."""
        timeout = httpx.Timeout(self._settings.request_seconds, read=self._settings.watch_seconds)
        body = msgspec.json.encode({"create_request": request})
        try:
            async with self._http.stream(
                "POST",
                f"{self._endpoint}/v3/watch",
                content=body,
                headers=self._headers(),
                timeout=timeout,
            ) as response:
                async for line in response.aiter_lines():
                    result = msgspec.json.decode(line).get("result", {})
                    if result.get("canceled") or not result:
                        return  # compacted, or not allowed: the next look says it
                    yield [
                        key_value(event["kv"])
                        for event in result.get("events", ())
                        if event.get("type", "PUT") == "PUT"
                    ]
        except (*BROKEN, msgspec.DecodeError):
            self._turn()

    # --- members ----------------------------------------------------------------------------------

    async def members(self) -> list[Member]:
        answer = await self.ask("/v3/cluster/member/list", {})
        leader = (await self.ask("/v3/maintenance/status", {})).get("leader", "")
        return [
            Member(
                each.get("name") or each["ID"],
                ",".join(each.get("clientURLs", ())),
                each["ID"] == leader,
                "" if each.get("name") else "it has not started yet",
            )
            for each in answer.get("members", ())
        ]


def _verification(settings: EtcdSettings) -> Any:
    """How a server proves who it is; a certificate of our own, if there is one, is shown to it."""
    if not any(each.startswith("https:") for each in settings.endpoints):
        return False
    try:
        context = httpx.create_ssl_context()
        if settings.ca_file:
            import ssl

            context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.certificate_file:
            context.load_cert_chain(settings.certificate_file, settings.key_file or None)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidSetting(f"the certificates for etcd cannot be used: {error}") from error
    return context


def _answer(status: int, content: bytes) -> Json:
    """Raises `EtcdRefusal`, or `_TryElsewhere` when this endpoint cannot know."""
    try:
        answer: Json = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise _TryElsewhere(f"HTTP status {status} without JSON") from error
    if status == 200:
        return answer
    number, message = answer.get("code", 2), answer.get("message") or answer.get("error", "")
    if number in TRY_ELSEWHERE:
        raise _TryElsewhere(message)
    raise EtcdRefusal(number, message)


# --- the gateway's JSON ---------------------------------------------------------------------------


def text(data: bytes) -> str:
    return b64encode(data).decode()


def key_value(kv: Json) -> KeyValue:
    return KeyValue(b64decode(kv["key"]), b64decode(kv.get("value", "")))


def read(key: bytes, end: bytes = b"", **more: object) -> Json:
    request: dict[str, object] = {"key": text(key), **more}
    if end:
        request["range_end"] = text(end)
    return request


def last(key: bytes, end: bytes, **more: object) -> Json:
    return read(key, end, limit="1", sort_order="DESCEND", sort_target="KEY", **more)


def put(key: bytes, value: bytes) -> Json:
    return {"request_put": {"key": text(key), "value": text(value)}}


def delete(key: bytes, end: bytes) -> Json:
    return {"request_delete_range": {"key": text(key), "range_end": text(end)}}


def ranges(transaction_answer: Json) -> list[list[KeyValue]]:
    """What the ranges of a transaction found, in their order."""
    return [
        [key_value(kv) for kv in each["response_range"].get("kvs", ())]
        for each in transaction_answer.get("responses", ())
        if "response_range" in each
    ]


def is_absent(key: bytes) -> Json:
    return {"key": text(key), "target": "VERSION", "result": "EQUAL", "version": "0"}


def is_there(key: bytes) -> Json:
    return {"key": text(key), "target": "VERSION", "result": "GREATER", "version": "0"}


def has_value(key: bytes, value: bytes) -> Json:
    return {"key": text(key), "target": "VALUE", "result": "EQUAL", "value": text(value)}
