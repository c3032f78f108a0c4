"""How fast the simulator is: steps a second at 64 running requests, and bytes that a step leaves behind.

python benchmarks/simulate.py
"""

from __future__ import annotations

import time
import tracemalloc

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor, preset
from lablib.scheduler import ContinuousBatching
from lablib.workload import AllAtOnce, Fixed, synthetic

RUNNING, STEPS = 64, 2000


def running_engine() -> Engine:
    """An engine whose requests have all computed their prompts."""
    workload = synthetic("steady", RUNNING, AllAtOnce(), Fixed(100), Fixed(STEPS + 2))
    engine = Engine(
        ContinuousBatching(RUNNING, workload.max_model_len, max_num_batched_tokens=RUNNING * 101),
        SimulatedExecutor(preset("h100", "llama-3-8b")),
    )
    for request in workload:
        engine.add_request(request)
    engine.step()
    return engine


def main() -> None:
    rates = []
    for _ in range(5):
        engine = running_engine()
        start = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        rates.append(STEPS / (time.perf_counter() - start))
    print(f"{RUNNING} running requests: {max(rates):,.0f} steps/s (best of 5; worst {min(rates):,.0f})")
    engine = running_engine()
    tracemalloc.start()
    for _ in range(STEPS):
        engine.step()
    grown = tracemalloc.get_traced_memory()[0]
    print(f"memory: {grown / STEPS:,.0f} bytes a step, {grown / STEPS / RUNNING:.1f} a token")


if __name__ == "__main__":
    main()
