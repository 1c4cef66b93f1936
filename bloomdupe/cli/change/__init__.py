"""Verbs that change which requests a job holds."""
