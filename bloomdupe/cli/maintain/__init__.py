"""Verbs that copy, check and repair a store."""
