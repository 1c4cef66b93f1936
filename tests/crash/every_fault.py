"""All fault classes, in the order of the fault plan."""

from __future__ import annotations

from damage import Damage
from feed_server import FeedServerKills
from full_disk import FullDisk
from generated_spiders import OnDisk, OnRedis
from hostile_sites import HostileSites
from models import Models
from power_cuts import CreationCuts, PowerCuts
from refusals import Refusals
from shared_crawls import ReturnedCrawls, SharedCrawls
from shared_idioms import SharedIdioms
from shared_kills import SharedKills
from stop_points import StopPoints
from syscalls import IOErrors, SystemCalls
from trial import Fault

EVERY_FAULT: tuple[Fault, ...] = (
    SystemCalls(),
    StopPoints(),
    PowerCuts(),
    CreationCuts(),
    IOErrors(),
    FullDisk(),
    Damage(),
    Refusals(),
    Models(),
    HostileSites(),
    SharedKills(),
    SharedCrawls(),
    ReturnedCrawls(),
    SharedIdioms(),
    OnDisk(),
    OnRedis(),
    FeedServerKills(),
)
