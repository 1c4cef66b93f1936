"""Protections of a shared crawl that are taken out, in a worker, for controls."""

from __future__ import annotations

from bloomdupe.store.redis import owner
from bloomdupe.store.redis.owner import PartitionOwner

FENCE = ("~= token then return 'not the owner'",)
STEP = ("if last == step then return 'again' end", "'not the next step'")
"""What the script of a commit checks."""


def fence() -> None:
    """Let a worker commit whatever it believes, and never look who it is."""
    script = owner.LuaScript("commit")
    lines = script.text.decode().splitlines()
    guards = FENCE + STEP
    kept = [line for line in lines if not any(guard in line for guard in guards)]
    assert len(lines) - len(kept) == len(guards)
    script.text = "\n".join(kept).encode()
    owner.COMMIT = script
    PartitionOwner.look_as_owner = PartitionOwner.look  # type: ignore[method-assign]
    PartitionOwner.still_owns = lambda *_: True  # type: ignore[method-assign]
