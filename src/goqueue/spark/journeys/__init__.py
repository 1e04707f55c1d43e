"""`goqueue pipeline journeys`: what messages took, and what became of them, over their history.

options.py    what to look at
events.py     the history of events (`__traces`), read from the broker by executors
measures.py   what events say of messages: times between steps, as the broker's metrics count them
job.py        puts them together
"""
