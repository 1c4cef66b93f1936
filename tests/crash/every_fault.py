"""All fault classes, in the order of the fault plan."""

from __future__ import annotations

from backups import Backups
from crawl_kills import CrawlKills
from damage import Damage
from ends import Ends
from feed_server import FeedServerKills
from full_creation import FullCreation
from full_disk import FullDisk
from generated_spiders import OnDisk, OnRedis
from hostile_sites import HostileSites
from io_errors import IOErrors
from models import Models
from other_parts import OtherParts
from power_cuts import CreationCuts, PowerCuts
from refusals import Refusals
from shared_crawls import (
    ClusterCrawls,
    ReplicatedCrawls,
    ReturnedCrawls,
    SharedCrawls,
)
from shared_idioms import SharedIdioms
from shared_kills import SharedKills
from stop_points import RaisingPoints, StopPoints
from store_on_redis import GeneratedOnRedis, StopPointsOnRedis
from syscalls import SystemCalls
from trial import Fault

EVERY_FAULT: tuple[Fault, ...] = (
    SystemCalls(),
    CrawlKills(),
    PowerCuts(),
    CreationCuts(),
    FullCreation(),
    IOErrors(),
    FullDisk(),
    Damage(),
    Refusals(),
    Models(),
    Backups(),
    HostileSites(),
    StopPoints(),
    StopPointsOnRedis(),
    RaisingPoints(),
    OtherParts(),
    Ends(),
    SharedKills(),
    SharedCrawls(),
    ReturnedCrawls(),
    ClusterCrawls(),
    ReplicatedCrawls(),
    SharedIdioms(),
    OnDisk(),
    GeneratedOnRedis(),
    OnRedis(),
    FeedServerKills(),
)
