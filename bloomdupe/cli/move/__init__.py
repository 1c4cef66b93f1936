"""Verbs that bring requests, URLs and output from one place to another."""
