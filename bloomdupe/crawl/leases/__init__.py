"""Requests in progress, and how each of them ends.

``lease`` is a request in progress, ``leases`` are all of them; ``children`` and
``cut_short`` remember the outputs that an earlier run has stored already.
"""
