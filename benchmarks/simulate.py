"""How fast the simulator is: steps a second at 64 running requests, and bytes that a step leaves behind.

Once with one block a request, and once with blocks of 16 tokens that requests take as they grow.

python benchmarks/simulate.py
"""

from __future__ import annotations

import time
import tracemalloc

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor, preset
from lablib.scheduler import ContinuousBatching
from lablib.scheduler.policies import ReservePrompt
from lablib.workload import AllAtOnce, Fixed, synthetic

RUNNING, STEPS = 64, 2000


def running_engine(block_size: int | None) -> Engine:
    """An engine whose requests have all computed their prompts; ``None``: one block a request."""
    workload = synthetic("steady", RUNNING, AllAtOnce(), Fixed(100), Fixed(STEPS + 2))
    engine = Engine(
        ContinuousBatching(
            RUNNING,
            workload.max_model_len,
            max_num_batched_tokens=RUNNING * 101,
            block_size=block_size,
            admission=ReservePrompt(),
        ),
        SimulatedExecutor(preset("h100", "llama-3-8b")),
    )
    for request in workload:
        engine.add_request(request)
    engine.step()
    return engine


def main() -> None:
    rates: dict[int | None, list[float]] = {None: [], 16: []}
    for _ in range(5):
        for block_size, found in rates.items():
            engine = running_engine(block_size)
            start = time.perf_counter()
            for _ in range(STEPS):
                engine.step()
            found.append(STEPS / (time.perf_counter() - start))
    for block_size, found in rates.items():
        blocks = f"blocks of {block_size}" if block_size else "one block a request"
        print(f"{RUNNING} running, {blocks}: {max(found):,.0f} steps/s (best of 5; worst {min(found):,.0f})")
        engine = running_engine(block_size)
        tracemalloc.start()
        for _ in range(STEPS):
            engine.step()
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        print(f"    memory: {grown / STEPS:,.0f} bytes a step, {grown / STEPS / RUNNING:.1f} a token")


if __name__ == "__main__":
    main()
