"""A stand-in for the package scrapy-deltafetch, and a spider that does nothing."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from scrapy import Spider
from scrapy.exceptions import NotConfigured


class One(Spider):
    name = "one"

    def parse(self, response: Any) -> None:
        pass


class DeltaFetch:
    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        if not crawler.settings.getbool("DELTAFETCH_ENABLED"):
            raise NotConfigured
        return cls()


class Derived(DeltaFetch):
    pass


def install() -> None:
    """Let the class have its usual name."""
    for name in ("scrapy_deltafetch", "scrapy_deltafetch.middleware"):
        sys.modules[name] = ModuleType(name)
    DeltaFetch.__module__ = name
    setattr(sys.modules[name], "DeltaFetch", DeltaFetch)  # noqa: B010
