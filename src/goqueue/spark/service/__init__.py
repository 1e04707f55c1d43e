"""Pipelines under supervision: `goqueue pipeline serve` runs the files of a folder, for ever.

supervision   when a pipeline is started, stopped and tried again; pure
files         what a folder declares
tables        what topics declare: that they are kept as tables
running       the queries of one pipeline
upkeep        compaction and vacuum of its archives
alerts        whether sinks get rows often enough, and enough of them; pure
webhooks      tells alerts to other systems
board         where it tells how pipelines are, and is told what to do: topics of the broker
service       ties them together
metrics       how pipelines are, for Prometheus
job           all of it in a session
"""
