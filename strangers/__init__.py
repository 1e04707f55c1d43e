"""Other projects' own test-suites, run against GoQueue.

A suite is fetched from a package registry into a cache, built there, and run against a broker of
its own on loopback.  Nothing of it is kept in this tree, and neither GoQueue nor its tests need it.
"""
