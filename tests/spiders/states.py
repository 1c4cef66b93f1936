"""A spider with a callback that never returns."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

from spiders.follow import Follow

if TYPE_CHECKING:
    from scrapy.http import Response


class Hang(Follow):
    """Hangs in the callback of /b, and with it the reactor."""

    name = "hang"

    def parse(self, response: Response) -> Any:
        if response.url.endswith("/b"):
            self.logger.info("it hangs")
            Event().wait()
        yield from super().parse(response)
