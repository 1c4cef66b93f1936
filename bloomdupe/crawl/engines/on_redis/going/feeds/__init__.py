"""Feeds of workers on Redis, and of the `collect` that writes their output."""
