"""The HTTP contract: each JSON body once, for the listener, its OpenAPI document and the clients.

Structs that come in refuse unknown fields; those that go out do not, so that a client understands a
newer server.  A field that is added to an answer later gets a default, for the older server.
"""
