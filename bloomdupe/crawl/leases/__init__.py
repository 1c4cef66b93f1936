"""Requests in progress, and how each of them ends.

``lease`` is a request in progress, ``leases`` are all of them; ``children`` remembers
the outputs that an earlier run has stored already.
"""
