"""A job that does not run here: its requests, its failed requests, its state.

:func:`open_job` opens a job that a user names. ``job`` describes the result,
``job_on_disk`` and ``job_in_redis`` implement it. Reading a job needs no Scrapy, and
may be done while a crawl runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.filter.parameters import is_url

if TYPE_CHECKING:
    from bloomdupe.jobs.job import Job


def open_job(named: str) -> Job:
    """Return the job that a user names, a URL on Redis; nothing is read yet."""
    if is_url(named):
        from bloomdupe.jobs.job_in_redis import JobInRedis

        return JobInRedis(named)
    from bloomdupe.jobs.job_on_disk import JobOnDisk

    return JobOnDisk(named)
