"""DescribeClientQuotas: there are none."""

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse

from goqueue.model.errors import GoQueueError
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.wire.messages import build


async def handle_describe_client_quotas(
    context: Context, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        context.access.demand_cluster(Operation.DESCRIBE_CONFIGS)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(DescribeClientQuotasResponse, **refusal, entries=None)
    return build(DescribeClientQuotasResponse, error_message=None, entries=())
