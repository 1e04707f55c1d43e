"""`goqueue pipeline report`: throughput, latency, lag, hot keys and dead letters of topics.

measures.py   what is measured, as functions of DataFrames
figures.py    what came out
page.py       the HTML page, with charts.py
"""

from goqueue.spark.report.figures import ReportFigures
from goqueue.spark.report.job import ReportOptions, make_report, write_report

__all__ = ["ReportFigures", "ReportOptions", "make_report", "write_report"]
