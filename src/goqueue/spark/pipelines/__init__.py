"""Pipelines declared in YAML: sources, SQL steps, sinks.

    text --read_pipeline--> Pipeline --plan--> Plan --start--> streaming queries
         (all problems, with lines)   (schemas; Spark's own objections)

`model` has what a file may say, `reading` turns a file into it, `checks` says what makes no sense
in it without asking Spark.  `frames`, `outputs` and `planning` ask Spark; `starting` writes.
"""
