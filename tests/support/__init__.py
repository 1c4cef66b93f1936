"""Helpers of the tests: see README.md."""
