"""Verbs that copy, check and mend a store."""
