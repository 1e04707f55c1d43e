"""Changes merged into tables of a lake by key: inserts, updates, deletes, or a history of them.

    changes.py    rows of a stream as changes: key, version, whether the key is gone
    deciding.py   what is to be written, from what is there and what has come: plain Arrow
    merging.py    how Delta and Iceberg take it, in one commit
    job.py        a micro-batch after the other

Every decision goes by the version that each row carries, and none by what was done before.  So a
micro-batch may be merged any number of times: after a crash, with an older checkpoint, or without
one.  The table is the same.
"""
