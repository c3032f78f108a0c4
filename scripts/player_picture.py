"""Make the README's picture of the player from a real run (needs the ``test`` extra, and Chromium).

    python scripts/player_picture.py [TRACE.json.gz] [--out docs/player.png] [--step 30] [--select r3]

Without a trace the default model answers a few questions under static batching first.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from lablib.trace import Trace
from lablib.viz import StepPlayer

ROOT = Path(__file__).parents[1]
BATCH_SIZE, MAX_MODEL_LEN = 8, 128
QUESTIONS = {
    "What is a cache?": 40,
    "Name three colours.": 12,
    "Why is the sky blue? Explain it to a child of six years, please.": 48,
    "Write one sentence about the sea.": 24,
    "What is the capital of France?": 9,
    "Give me a recipe for a simple tomato soup that takes no more than twenty minutes to make.": 56,
    "Count from one to ten.": 30,
    "What does a scheduler do in an operating system?": 36,
    "Say hello in Spanish.": 8,
    "Why do cats sleep so much?": 44,
    "List the planets of the solar system, beginning with the one nearest to the sun.": 50,
    "What is 7 times 8?": 14,
    "Tell me a short story about a lighthouse keeper and a lost ship.": 60,
    "What is a noun?": 26,
}


def serve() -> Trace:
    """Answer the questions with the default model."""
    # Only here, because a saved trace can be drawn without torch.
    from lablib.engine import Engine
    from lablib.executor.model import ModelExecutor
    from lablib.model import load_model
    from lablib.request import Request, SamplingParams
    from lablib.scheduler import StaticBatching

    model = load_model()
    requests = [
        Request(f"r{i}", model.encode_chat(question), SamplingParams(max_tokens=length))
        for i, (question, length) in enumerate(QUESTIONS.items())
    ]
    executor = ModelExecutor(model, num_blocks=BATCH_SIZE, block_size=MAX_MODEL_LEN)
    pieces = dict.fromkeys(("schedule", "pad_batch", "kv cache"), "reference")
    engine = Engine(StaticBatching(BATCH_SIZE, MAX_MODEL_LEN), executor, workload="14 questions", pieces=pieces)
    return engine.run(requests)


def take_picture(player: StepPlayer, out: Path, width: int) -> None:
    """Photograph the player, and nothing around it, at twice the usual sharpness."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = player.save_html(Path(folder) / "player.html")
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width, "height": 900}, device_scale_factor=2, color_scheme="light")
        page.goto(page_file.as_uri())
        page.locator(".sp-play").wait_for()
        page.wait_for_timeout(300)
        out.parent.mkdir(exist_ok=True)
        page.locator(".step-player").screenshot(path=out)
        chromium.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", type=Path, help="a saved trace")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "player.png")
    parser.add_argument("--step", type=int, default=30)
    parser.add_argument("--select", default="", help="id of a request to light up")
    parser.add_argument("--width", type=int, default=1280)
    options = parser.parse_args()
    player = StepPlayer(Trace.load(options.trace) if options.trace else serve())
    player.goto(options.step)
    player.selected = options.select
    take_picture(player, options.out, options.width)
    print(options.out, f"{options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
