"""Pipelines as tasks of schedulers: Airflow and Dagster.

    pipeline_process   a pipeline that is run once, as a process of its own
    airflow            an operator for Airflow
    dagster            assets for Dagster

A process of its own, because a scheduler's Python seldom has Spark beside it, and a task that is
killed must take its JVM along.  Neither scheduler is a requirement of this package.
"""
