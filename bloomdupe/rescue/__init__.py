"""Damaged stores: saves the readable records, and restores a backup.

Above ``filter``, ``frontier`` and ``store``, which it uses; ``cli`` comes in.
"""
