"""Memory of this machine as one process may use it: a container's limit counts, not only what the host has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Container:
    """Where Linux says what a container may use: the files of its control group.

    Args:
        limit: file with the limit in bytes, or the word "max".
        usage: file with the bytes in use, files that the kernel has read included.
        stat: file with lines "name bytes".
        reclaimable: the line of those files that the kernel drops when memory is short.
    """

    limit: Path
    usage: Path
    stat: Path
    reclaimable: str

    def room(self) -> tuple[float, float]:
        """The limit and what is left of it, in bytes; infinite where there is none, or no such file."""
        try:
            limit = float(self.limit.read_text())
        except (OSError, ValueError):  # no such file, or the word "max"
            return math.inf, math.inf
        try:
            counts = dict(line.split() for line in self.stat.read_text().splitlines())
            used = float(self.usage.read_text()) - float(counts[self.reclaimable])
        except (OSError, ValueError, KeyError):
            used = 0.0
        return limit, max(0.0, limit - used)


_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
CONTAINERS = (
    Container(_V2 / "memory.max", _V2 / "memory.current", _V2 / "memory.stat", "inactive_file"),
    Container(_V1 / "memory.limit_in_bytes", _V1 / "memory.usage_in_bytes", _V1 / "memory.stat", "total_inactive_file"),
)


def total() -> int:
    """Bytes of memory that processes here may use."""
    import psutil

    return int(min(psutil.virtual_memory().total, *(container.room()[0] for container in CONTAINERS)))


def free() -> int:
    """Bytes that a process here can still take before the machine swaps or the container is killed."""
    import psutil

    return int(min(psutil.virtual_memory().available, *(container.room()[1] for container in CONTAINERS)))
