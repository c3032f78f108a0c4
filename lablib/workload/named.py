"""Workloads with published statistics, by name; the figures and their sources are in ``data/published.json``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from lablib.workload.arrivals import AllAtOnce, ArrivalProcess, Gamma, Poisson
from lablib.workload.lengths import Lengths, LogNormal, Quantiles
from lablib.workload.workload import Workload, synthetic

DATA = Path(__file__).parent / "data"


@cache
def published() -> dict[str, dict[str, Any]]:
    """Figures of every named workload: source, published statistics, distributions."""
    figures: dict[str, dict[str, Any]] = json.loads((DATA / "published.json").read_text(encoding="utf-8"))
    return figures


NAMES = tuple(published())


def named(
    name: str,
    num_requests: int,
    rate: float | None = None,
    seed: int = 0,
    arrivals: ArrivalProcess | None = None,
) -> Workload:
    """Draw a workload whose lengths and arrivals have published statistics.

    Args:
        name: one of ``NAMES``.
        num_requests: how many requests.
        rate: requests a second, with the published variability (Poisson where all come at once in the original);
            the published rate when left out.
        seed: of the draws.
        arrivals: another arrival process, instead of the published one.

    Raises:
        ValueError: an unknown name, or both a rate and an arrival process.
    """
    if name not in published():
        raise ValueError(f"there is no workload {name!r}; there are {', '.join(NAMES)}")
    if rate is not None and arrivals is not None:
        raise ValueError("give a rate or an arrival process, not both: the process has a rate of its own")
    figures = published()[name]
    process = arrivals or published_arrivals(name, rate)
    prompts, outputs = _lengths(figures["prompts"]), _lengths(figures["outputs"])
    return synthetic(name, num_requests, process, prompts, outputs, seed, figures["source"])


def published_arrivals(name: str, rate: float | None = None) -> ArrivalProcess:
    """The arrival process of a named workload, at another ``rate`` (requests a second) if one is given."""
    figures = published()[name]["arrivals"]
    if not figures:
        return AllAtOnce() if rate is None else Poisson(rate)
    rate = figures["rate"] if rate is None else rate
    return Poisson(rate) if figures["cv"] == 1 else Gamma(rate, figures["cv"])


def load(name: str) -> Workload:
    """A workload that comes with the project.

    ``mixed32``: 32 real prompts of 16 to 229 tokens and answers of 8 to 122, all at once; 2,583 prompt and 1,325
    output tokens. Static batches of 8 use 43% of their slots.

    ``mixed16``: the same in small, for slow machines: 16 of these prompts, 16 to 124 tokens, and answers half as long,
    5 to 61; 838 prompt and 395 output tokens. Static batches of 8 use 43% of their slots here too.
    """
    return Workload.load(DATA / f"{name}.json")


def _lengths(figures: dict[str, Any]) -> Lengths:
    if "quantiles" in figures:
        return Quantiles({float(percent): tokens for percent, tokens in figures["quantiles"].items()})
    return LogNormal(**figures)
