"""A site on loopback: ``graph_server.py PAGES LINKS`` prints its port and serves it.

Page n links to its two children, to two pages above it, and to pages anywhere, until
it has LINKS; so all but two of them were seen before, or soon will be.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import Site

PAGES, LINKS = map(int, sys.argv[1:])
FILLER = "<p>" + "some text " * 200 + "</p>"


class Page(Resource):
    isLeaf = True  # noqa: N815 - Twisted's name

    def render_GET(self, request: Any) -> bytes:  # noqa: N802
        number = int(request.path.rpartition(b"/")[2] or 0)
        links = [2 * number + 1, 2 * number + 2, number // 2, number // 3]
        links += [(number * 7919 + other * 104_729) for other in range(LINKS - 4)]
        request.setHeader("Content-Type", "text/html")
        return (
            f"<html><body>{FILLER}"
            + "".join(f"<a href='/articles/page/{n % PAGES}'>x</a>" for n in links)
            + "</body></html>"
        ).encode()


if __name__ == "__main__":
    loop: Any = reactor
    site: Any = Site(Page())  # type: ignore[no-untyped-call]
    port = loop.listenTCP(0, site, interface="127.0.0.1")
    print(port.getHost().port, flush=True)
    loop.run()
