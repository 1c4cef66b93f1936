"""Verbs that show a job and change nothing."""
