from __future__ import annotations

from jobs import verb

__all__ = ["verb"]
