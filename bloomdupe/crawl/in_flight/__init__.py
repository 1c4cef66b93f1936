"""Requests in flight, and how each of them ends.

``request`` is one of them, ``registry`` knows all.
"""
