"""Hosts as this project names them: ``example.com``, or ``example.com:8080``.

The port is part of the name unless it is the default port of the scheme. So
``http://example.com/`` and ``https://example.com/`` are the same site, and two servers
on a machine are two sites.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

__all__ = ["can_resolve", "folder_name", "host_of", "is_loopback"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# A host after IDNA: labels between single dots, or an IPv6 address.
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|[0-9a-f:.]*:[0-9a-f:.]*")


def host_of(url: str) -> str | None:
    """Name the host of an absolute URL.

    Returns None for a URL that cannot be fetched: not http or https, no host, an
    impossible host or port. Never raises an exception, for any text.
    """
    try:
        parts = urlsplit(url)
        hostname, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or hostname is None:
        return None
    if _HOST.fullmatch(hostname) is None or len(hostname) > 253:
        return None
    if ":" in hostname:
        hostname = f"[{hostname}]"
    if port is None or port == _DEFAULT_PORTS[parts.scheme]:
        return hostname
    return f"{hostname}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether *host* (as from :func:`host_of`) is this machine."""
    hostname = urlsplit(f"//{host}").hostname or ""
    if hostname == "localhost" or hostname.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False


def folder_name(host: str) -> str:
    """Turn *host* into a folder name: unique, never a path, the same on every system.

    Lower-case letters, digits, dot, hyphen and underscore stay, and the colon before a
    port becomes a tilde; any other character becomes ``~`` and its code in hex.
    """
    name, colon, port = host.rpartition(":")
    if not (colon and port.isdecimal()):
        name, port = host, ""
    safe = re.sub(r"[^a-z0-9._-]", lambda char: f"~{ord(char[0]):02x}", name)
    # A leading dot hides the folder, or names the folder itself or its parent.
    safe = re.sub(r"^\.", "~2e", safe)
    return f"{safe}~{port}" if port else safe


def can_resolve(url: str) -> bool:
    """Tell whether the host of *url* has an address, or a proxy would look it up."""
    parts = urlsplit(url)
    hostname = parts.hostname or ""
    if parts.scheme in getproxies() and not proxy_bypass(hostname):
        return True
    try:
        socket.getaddrinfo(hostname, None)
    except OSError:
        return False
    return True
