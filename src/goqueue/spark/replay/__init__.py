"""Messages of an archive or of a topic, written to a topic again.

options.py    what to replay
windows.py    the division into windows of offsets, each written by one transaction
plans.py      what a replay is, kept in a file: whoever starts it again goes on with the same
sources.py    the rows of a window, from an archive or from a topic
target.py     whether the topic that they go to can take them
job.py        puts them together
"""
