"""`goqueue pipeline report`: throughput, latency, lag, hot keys and dead letters of topics.

options.py    what to report on
measures.py   what is measured, as functions of DataFrames
figures.py    what came out
page.py       the HTML page, with charts.py
job.py        puts them together
"""
