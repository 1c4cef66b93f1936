"""Requests in progress, and how each of them ends.

``leases`` follows a request from the frontier to its end; ``children`` and
``cut_short`` remember the outputs that an earlier run has stored already.
"""
