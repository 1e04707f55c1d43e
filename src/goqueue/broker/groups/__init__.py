"""Consumer groups: the coordinator, its members over HTTP, and their administration.

coordinator        the requests of all listeners, on the group machine
http_members       the requests of members over HTTP: join, poll, commit, leave
  http_requests      what they send and get
  http_sessions      what is kept of each: positions, deliveries, generation
  poll_reader        reads their partitions for a poll
  topic_names        ids of topics, which groups use, to names and partitions
admin              assignments, lag, setting and resetting offsets
services           what http_members and admin need of the broker
"""
