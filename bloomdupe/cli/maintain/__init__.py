"""Verbs that copy and check a store."""
