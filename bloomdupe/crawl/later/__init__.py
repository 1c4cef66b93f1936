"""Requests that are scheduled for later, or again: delays, retries, revisits."""
