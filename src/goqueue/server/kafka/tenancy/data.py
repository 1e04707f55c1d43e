"""Names in Produce and Fetch, which have codecs of their own."""

from collections.abc import Sequence
from uuid import UUID

from msgspec.structs import replace

from goqueue.quotas import Namespace
from goqueue.wire.fetch import FetchRequest, FetchTopic, FetchTopicResponse, ForgottenTopic
from goqueue.wire.produce import ProduceRequest, ProduceTopic, ProduceTopicResponse


def produce_into(request: ProduceRequest, namespace: Namespace) -> ProduceRequest:
    own_id = request.transactional_id
    return replace(
        request,
        transactional_id=None if own_id is None else namespace.into(own_id),
        topics=[
            ProduceTopic(_into(each.topic, namespace), each.partitions) for each in request.topics
        ],
    )


def show_produce(
    topics: Sequence[ProduceTopicResponse], namespace: Namespace
) -> list[ProduceTopicResponse]:
    return [
        ProduceTopicResponse(
            _out(topic.topic, namespace),
            [
                replace(each, error_message=namespace.out_text(each.error_message))
                if each.error_message
                else each
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def fetch_into(request: FetchRequest, namespace: Namespace) -> FetchRequest:
    topics = [FetchTopic(_into(each.topic, namespace), each.partitions) for each in request.topics]
    forgotten = [
        ForgottenTopic(_into(each.topic, namespace), each.partitions) for each in request.forgotten
    ]
    return replace(request, topics=topics, forgotten=forgotten)


def show_fetch(
    topics: Sequence[FetchTopicResponse], namespace: Namespace
) -> list[FetchTopicResponse]:
    return [FetchTopicResponse(_out(each.topic, namespace), each.partitions) for each in topics]


def _into(topic: str | UUID, namespace: Namespace) -> str | UUID:
    """An id is the same for everybody, and who may use it is asked."""
    return topic if isinstance(topic, UUID) else namespace.into(topic)


def _out(topic: str | UUID, namespace: Namespace) -> str | UUID:
    return topic if isinstance(topic, UUID) else namespace.out(topic)
