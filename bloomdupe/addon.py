"""Addon: everything on, with one line in settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["Addon"]


class Addon:
    """``ADDONS = {"bloomdupe.Addon": 500}``.

    Sets ``DUPEFILTER_CLASS``, unless the project, the spider or the command line
    set it themselves. Settings that cannot be used are refused here, before the
    crawl begins.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Change the settings; called by Scrapy."""
        JobSettings.read(settings)
        settings.set("DUPEFILTER_CLASS", "bloomdupe.BloomDupeFilter", "addon")
