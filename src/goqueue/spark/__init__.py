"""Topics as tables of Spark.  Needs the extra: `pip install goqueue[spark]`."""
