"""Requests in progress, and how each of them ends.

``lease`` is a request in progress, ``leases`` are all of them.
"""
