"""A job that does not run here: its requests, its failed requests, its state.

:func:`open_job` opens a job that a user names. ``job_contract`` describes the result,
``on_disk`` and ``on_redis`` implement it. Reading a job needs no Scrapy, and may be
done while a crawl runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.filter.opening import is_url
from bloomdupe.jobs.on_disk.job_on_disk import JobOnDisk
from bloomdupe.jobs.on_redis.job_on_redis import JobOnRedis

if TYPE_CHECKING:
    from bloomdupe.jobs.job_contract import Job

ENGINES: tuple[type[Job], ...] = (JobOnDisk, JobOnRedis)


def engine_of(named: str) -> type[Job]:
    """Return the engine of a job that is named so: a URL is on Redis."""
    return JobOnRedis if is_url(named) else JobOnDisk


def open_job(named: str) -> Job:
    """Return the job that a user names; nothing is read yet."""
    return engine_of(named)(named)
