"""Topics kept as tables of a lake.

    options.py    what to archive
    tasks.py      what a task does with its rows: decode, sort out, write files, report
    archiver.py   what the driver does with the reports: grow the schema, commit, once and only once
    plan.py       what the two tell each other

None of these needs Spark: `job.py` lets Spark run them.
"""
