"""What handlers are given by name beside what the request says."""

from typing import TypeAlias

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from goqueue.broker import Broker
from goqueue.broker.groups.admin import GroupAdmin
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.messages.merged_reader import MergedReader
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.broker.queues.service import Queues
from goqueue.broker.security.audit_reader import AuditReader
from goqueue.broker.traces.service import Traces
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.asgi.readiness import Health
from goqueue.server.http.openapi.document import ApiDocument
from goqueue.server.http.routes.sent_events import SentEvents
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog

TheBroker: TypeAlias = NamedDependency[SkipValidation[Broker]]
TheMessages: TypeAlias = NamedDependency[SkipValidation[Messages]]
TheMergedReader: TypeAlias = NamedDependency[SkipValidation[MergedReader]]
TheMembers: TypeAlias = NamedDependency[SkipValidation[GroupMembers]]
TheGroupAdmin: TypeAlias = NamedDependency[SkipValidation[GroupAdmin]]
TheQueues: TypeAlias = NamedDependency[SkipValidation[Queues]]
TheTransactionMessages: TypeAlias = NamedDependency[SkipValidation[TransactionMessages]]
TheTraces: TypeAlias = NamedDependency[SkipValidation[Traces]]
TheMetrics: TypeAlias = NamedDependency[SkipValidation[Metrics]]
TheDocument: TypeAlias = NamedDependency[SkipValidation[ApiDocument]]
TheHealth: TypeAlias = NamedDependency[SkipValidation[Health]]
TheServerLog: TypeAlias = NamedDependency[SkipValidation[ServerLog]]
TheAuditReader: TypeAlias = NamedDependency[SkipValidation[AuditReader]]
ThePolls: TypeAlias = NamedDependency[SkipValidation[LongPolls]]
TheSentEvents: TypeAlias = NamedDependency[SkipValidation[SentEvents]]
