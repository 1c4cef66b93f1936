"""A disk that was shut down is mounted anew, even if other processes copy mounts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from real_power_cuts import (
    SYSTEMS,
    RealPowerCuts,
    format_disk,
    mounted,
    own_mounts,
    shut_down,
)

pytestmark = pytest.mark.slow

COPIES = "read -r _; exec unshare -m sh -c 'echo copied; read -r _'"
"""Copies all mounts of its namespace when told to, and keeps them until told to end."""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_copy_of_the_mounts_does_not_hold_the_disk(
    tmp_path: Path, system: str
) -> None:
    reason = RealPowerCuts().missing()
    if reason is not None:
        pytest.skip(reason)
    disk = format_disk(tmp_path, system)
    other = subprocess.Popen(
        ["sh", "-c", COPIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert other.stdin is not None
    assert other.stdout is not None
    with other, own_mounts():
        with mounted(disk) as place:
            other.stdin.write(b"\n")
            assert other.stdout.readline() == b"copied\n"
            shut_down(place)
        with mounted(disk) as place:
            (place / "job").mkdir()
        other.stdin.write(b"\n")
