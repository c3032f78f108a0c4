"""Continuous beside static batching on the real model: 32 requests, the same slots, taking turns in one process.

The last line is ``ratio: continuous / static`` of the output tokens per second, medians of all rounds.

    python benchmarks/schedulers.py --slots 8 --rounds 5
"""

from __future__ import annotations

import argparse
import statistics

import lablib  # noqa: F401 - before torch: it says how torch's threads wait for each other

# isort: split

import torch

from lablib import metrics
from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.model import LanguageModel, load_model
from lablib.scheduler import ContinuousBatching, Scheduler, StaticBatching
from lablib.workload import Workload, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--slots", type=int, default=8, help="rows of a batch")
    parser.add_argument(
        "--rounds", type=int, default=5, help="turns that each side takes, after one that does not count"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_model(dtype=getattr(torch, args.dtype))
    workload = load("mixed32").encoded(model)
    rates: dict[str, list[float]] = {"static": [], "continuous": []}
    for round_number in range(args.rounds + 1):
        for name, scheduler in {
            "static": StaticBatching(args.slots, workload.max_model_len),
            "continuous": ContinuousBatching(args.slots, workload.max_model_len),
        }.items():
            rate = tokens_per_second(model, scheduler, workload)
            if round_number > 0:
                rates[name].append(rate)
    print(f"{workload.name}, {args.dtype}, {args.slots} slots, {args.threads} threads, {args.rounds} rounds")
    for name, values in rates.items():
        print(f"{name:12}{statistics.median(values):8.0f} output tokens/s ({min(values):.0f} to {max(values):.0f})")
    print(f"ratio: {statistics.median(rates['continuous']) / statistics.median(rates['static']):.3f}")


def tokens_per_second(model: LanguageModel, scheduler: Scheduler, workload: Workload) -> float:
    """Output tokens per second of one run."""
    executor = ModelExecutor(model, scheduler.kv.pool.num_blocks, scheduler.kv.block_size)
    return metrics.summary(Engine(scheduler, executor).run(workload))["output_tokens_per_s"]


if __name__ == "__main__":
    main()
