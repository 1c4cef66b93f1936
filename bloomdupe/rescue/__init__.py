"""Damaged stores: saving what can be read, and putting a backup in place.

Above ``filter``, ``frontier`` and ``store``, which it uses; ``cli`` comes in.
"""
