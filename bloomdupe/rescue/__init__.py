"""Damaged stores: saves the readable records, and restores a backup.

Uses ``filter``, ``frontier`` and ``store``; ``cli`` uses this room.
"""
