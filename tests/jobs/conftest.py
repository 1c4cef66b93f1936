from __future__ import annotations

from support.jobs import verb

__all__ = ["verb"]
