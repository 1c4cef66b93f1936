"""A spider with a callback that never returns."""

from __future__ import annotations

from threading import Event
from typing import Any

from scrapy.http import Response

from spiders.follow import Follow


class Hang(Follow):
    """Hangs in the callback of /b, and with it the reactor."""

    name = "hang"

    def parse(self, response: Response) -> Any:
        if response.url.endswith("/b"):
            self.logger.info("it hangs")
            Event().wait()
        yield from super().parse(response)
