"""A declared pipeline as a job: planned, described, run.

job = PipelineJob(spark, pipeline, places)
job.describe()                                # what a dry run shows
queries = job.start(show, once=True)          # Spark's streaming queries
"""

from typing import Any, Final

from goqueue.client.kafka import KafkaClient, read_login
from goqueue.spark.pipelines.checks import AVAILABLE_NOW
from goqueue.spark.pipelines.connecting import find_unconnected
from goqueue.spark.pipelines.describing import Description, describe
from goqueue.spark.pipelines.model import Pipeline
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.planning import Plan, plan
from goqueue.spark.pipelines.starting import Show, Starter
from goqueue.spark.pipelines.topics import make_topics, missing_topics
from goqueue.spark.pipelines.tree import PipelineProblems
from goqueue.spark.runtime.connect import is_connected
from goqueue.spark.runtime.restarting_query import RestartingQuery

TIMEOUT_SECONDS: Final = 30.0


class PipelineJob:
    def __init__(self, spark: Any, pipeline: Pipeline, places: Places) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._places = places

    def plan(self) -> Plan:
        """Raises `PipelineProblems` with what the broker and Spark object to."""
        with self._client() as client:
            problems = missing_topics(client, self._pipeline)
        if is_connected(self._spark):
            problems += find_unconnected(self._pipeline)
            if problems:
                raise PipelineProblems(problems)
        try:
            planned = plan(self._spark, self._pipeline, self._places)
        except PipelineProblems as error:
            raise PipelineProblems([*problems, *error.problems]) from error
        if problems:
            raise PipelineProblems(problems)
        return planned

    def describe(self) -> Description:
        return describe(self._spark, self._pipeline, self.plan(), self._places)

    def start(self, show: Show, *, once: bool = False) -> list[RestartingQuery]:
        """`once`: process what is there and end, whatever the file says."""
        planned = self.plan()
        with self._client() as client:
            make_topics(client, self._pipeline)
        starter = Starter(self._spark, self._pipeline, self._places, show)
        return starter.start(planned, once=once)

    def is_endless(self, *, once: bool) -> bool:
        triggers = [
            each.trigger or self._pipeline.trigger for each in self._pipeline.sinks.values()
        ]
        return not once and any(each != AVAILABLE_NOW for each in triggers)

    def _client(self) -> KafkaClient:
        places = self._places
        return KafkaClient(
            places.bootstrap,
            client_id="goqueue-pipeline",
            timeout_s=TIMEOUT_SECONDS,
            login=read_login(places.path(places.login)) if places.login else None,
        )
