"""The step player in Chromium: how often a second a long run is drawn while somebody scrubs through it, and what draws.

Half of what the screen shows (60 a second) still looks smooth. Needs the test tools and Chromium or Chrome.

    python benchmarks/player.py --requests 150
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.scheduler import ContinuousBatching
from lablib.trace import Trace
from lablib.viz import StepPlayer
from lablib.workload import Poisson, Uniform, synthetic

SCRUB = """async () => {
  const player = document.querySelector('.step-player').player, range = player.controls.range;
  const steps = player.lanes[0].replay.numSteps, frames = 60, drawn = player.draws, begin = performance.now();
  for (let i = 0; i < frames; i++) {
    range.value = (i * 997) % steps;
    range.dispatchEvent(new Event('input'));
    await new Promise(requestAnimationFrame);
  }
  return (player.draws - drawn) / (performance.now() - begin) * 1e3;
}"""
DRAW = """() => {
  const player = document.querySelector('.step-player').player, steps = player.lanes[0].replay.numSteps, count = 100;
  const begin = performance.now();
  for (let i = 0; i < count; i++) {
    player.seek((i * 997) % steps);
    player._drawNow();
  }
  return (performance.now() - begin) / count;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=150, help="of the run that is shown; 150 make some 2,000 steps")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        parser.error("finds no Chromium or Chrome: install one (Debian: sudo apt install chromium)")
    trace = long_run(args.requests, args.slots)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = StepPlayer(trace).save_html(Path(folder) / "run.html")
        page = playwright.chromium.launch(executable_path=browser, args=["--headless", "--no-sandbox"]).new_page()
        page.goto(path.as_uri())
        page.locator(".sp-play").wait_for()
        rates = [page.evaluate(SCRUB) for _ in range(args.rounds)]
        draws = [page.evaluate(DRAW) for _ in range(args.rounds)]
    print(f"{trace.num_steps} steps, {args.slots} slots, {args.rounds} rounds")
    print(f"updates a second  {statistics.median(rates):6.1f} ({min(rates):.1f} to {max(rates):.1f})")
    print(f"ms a draw         {statistics.median(draws):6.2f} ({min(draws):.2f} to {max(draws):.2f})")


def long_run(num_requests: int, slots: int) -> Trace:
    """A run on a cost model in a paged cache of 4,096 blocks."""
    workload = synthetic("long", num_requests, Poisson(10.0), Uniform(50, 1100), Uniform(100, 800), seed=7)
    scheduler = ContinuousBatching(
        slots, workload.max_model_len, block_size=16, num_blocks=4096, max_num_batched_tokens=2048
    )
    return Engine(scheduler, SimulatedExecutor()).run(workload)


if __name__ == "__main__":
    main()
