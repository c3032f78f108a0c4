"""How the GPU benchmarks take times, and what they say of the machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import Any

import torch

Run = Callable[[], object]


def eager(calls: Sequence[Run], device: torch.device) -> Callable[[], float]:
    """Times one call, from the host's side."""

    def timed() -> float:
        synchronize(device)
        start = time.perf_counter()
        calls[0]()
        synchronize(device)
        return time.perf_counter() - start

    return timed


def captured(calls: Sequence[Run], device: torch.device) -> Callable[[], float]:
    """Times a CUDA graph of all calls with events, so that the host's launches don't count."""
    if device.type == "cpu":
        return eager(calls, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def timed() -> float:
        torch.cuda._sleep(300_000)  # some 200 µs, in which the host gets the graph into the queue
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / len(calls)

    return timed


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy that no cache holds."""
    source = torch.empty(2**30 if device.type == "cuda" else 2**26, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    timer = captured([partial(target.copy_, source)], device)
    return 2 * len(source) / statistics.median(timer() for _ in range(10))


def describe(device: torch.device) -> dict[str, Any]:
    """Card and versions."""
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {platform.machine()}, interpreter"
    cuda = torch.version.cuda if device.type == "cuda" else None
    versions = {"torch": torch.__version__, "triton": triton_version, "cuda": cuda, "python": platform.python_version()}
    return {"device": name, **versions, "date": date.today().isoformat()}
