"""InitProducerId: an identity for producers that must not write anything twice."""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse

from goqueue.model.errors import GoQueueError
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_transaction
from goqueue.server.kafka.errors import coordinator_code
from goqueue.txn import ProducerIdentity
from goqueue.wire.messages import build, milliseconds

FIRST_EPOCH: Final = 0


async def handle_init_producer_id(
    context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A new id each time, unless it is transactional: then the one before is fenced."""
    try:
        if request.transactional_id is not None:
            return await _init_transactional(context, request)
        if not context.access.allows_any_topic(Operation.WRITE):
            context.access.demand_cluster(Operation.IDEMPOTENT_WRITE)
        producer_id = await context.broker.reserve_producer_id()
    except GoQueueError as error:
        return _refuse(coordinator_code(error))
    return build(InitProducerIdResponse, producer_id=producer_id, producer_epoch=FIRST_EPOCH)


async def _init_transactional(
    context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    context.access.demand_transactional_id(Operation.WRITE, request.transactional_id or "")
    has_id, has_epoch = request.producer_id >= 0, request.producer_epoch >= 0
    if not request.transactional_id or has_id != has_epoch:
        return _refuse(ErrorCode.invalid_request)
    if request.enable2_pc or request.keep_prepared_txn:
        # Transactions that others decide, without a time-out: nobody may use them here.
        return _refuse(ErrorCode.transactional_id_authorization_failed)
    expected = ProducerIdentity(request.producer_id, request.producer_epoch) if has_id else None
    who = await context.broker.transactions.init(
        coordinated_transaction(context, request.transactional_id),
        timeout_ms=milliseconds(request.transaction_timeout),
        expected=expected,
    )
    return build(InitProducerIdResponse, producer_id=who.producer_id, producer_epoch=who.epoch)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return build(InitProducerIdResponse, error_code=code, producer_id=-1, producer_epoch=-1)
