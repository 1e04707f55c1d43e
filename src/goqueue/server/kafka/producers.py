"""InitProducerId: an identity for producers that must not write anything twice."""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse

from goqueue.model.errors import GoQueueError
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.wire.messages import build

FIRST_EPOCH: Final = 0


async def handle_init_producer_id(
    context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A new id each time: a producer without transactions has no past to be fenced from."""
    if request.transactional_id is not None:
        return _refused(_code_for_transactional_id(request.transactional_id))
    try:
        producer_id = await context.broker.reserve_producer_id()
    except GoQueueError as error:
        return _refused(kafka_code(error))
    return build(InitProducerIdResponse, producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _code_for_transactional_id(transactional_id: str) -> ErrorCode:
    # Clients take an unsupported version for final; they would ask again and again for as long as
    # the coordinator is said to be merely unavailable.
    return ErrorCode.unsupported_version if transactional_id else ErrorCode.invalid_request


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return build(InitProducerIdResponse, error_code=code, producer_id=-1, producer_epoch=-1)
