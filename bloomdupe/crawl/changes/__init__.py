"""Changes that a user makes to a job, whether a crawl runs it or not.

``change`` has the changes. Each is applied to an ``open_job``, the same way in a
process that has the job open for a verb, and in a running crawl. ``taking_up`` reads
them from the inbox of the store, and records the answers with their effects.
"""
