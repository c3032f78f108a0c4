"""One decode step of this project's model beside the same step of transformers, on the same weights.

Both compute one token a row from a cache of ``--context`` tokens and take the argmax. The two take turns within one
process, so that a noisy machine is noisy for both. The last line is ``ratio: ours / transformers`` of the medians.

    python benchmarks/decode.py --batch 8 --context 128 --dtype bfloat16
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from lablib.model import ForwardBatch, LanguageModel, load_model, sample
from lablib.model.checkpoint import resolve
from lablib.request import SamplingParams

Step = Callable[[int], list[int]]  # context length -> one token a row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint directory or hub id; the course's model if absent")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--batch", type=int, default=8, help="rows that decode together")
    parser.add_argument("--context", type=int, default=128, help="keys that each row attends to")
    parser.add_argument(
        "--block-size", type=int, help="tokens in a KV block; one block for the whole context if absent"
    )
    parser.add_argument("--rounds", type=int, default=8, help="turns that each side takes")
    parser.add_argument("--steps", type=int, default=12, help="steps in a turn")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads for both sides")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)

    prompts = torch.randint(1000, 40_000, (args.batch, args.context), generator=torch.Generator().manual_seed(0))
    last = args.context + 1 + args.steps
    sides = {
        "lablib": prepare_lablib(load_model(args.model, dtype), prompts, args.block_size or last),
        "transformers": prepare_transformers(args.model, dtype, prompts),
    }
    seconds = measure(sides, args.context, args.rounds, args.steps)

    print(f"decode step, {args.dtype}, batch {args.batch}, context {args.context}, {args.threads} threads")
    print(f"{'':14}{'median ms':>10}{'fastest':>9}{'tokens/s':>10}")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"{name:14}{median * 1e3:10.2f}{min(times) * 1e3:9.2f}{args.batch / median:10.0f}")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print(f"ratio: {medians['lablib'] / medians['transformers']:.3f}")


def measure(sides: dict[str, Step], context: int, rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of every step, the sides taking turns; each turn's first step is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, step in sides.items():
            step(context)
            for i in range(steps):
                start = time.perf_counter()
                step(context + i)
                seconds[name].append(time.perf_counter() - start)
    return seconds


def prepare_lablib(model: LanguageModel, prompts: torch.Tensor, block_size: int) -> Step:
    """Fills the cache with the prompts; block after block, sequence after sequence."""
    num_rows, context = prompts.shape
    num_blocks = -(-(context + 32) // block_size)
    model.allocate_cache(num_rows * num_blocks, block_size)
    tables = [tuple(range(i * num_blocks, (i + 1) * num_blocks)) for i in range(num_rows)]
    first_rows = torch.arange(num_rows) * num_blocks * block_size  # tables are consecutive, so slots are too
    params = [SamplingParams()] * num_rows
    for i, prompt in enumerate(prompts):
        places = torch.arange(context)
        model.forward(
            ForwardBatch(prompt, places, first_rows[i] + places, [context], [context], [tables[i]], places[-1:])
        )
    tokens = prompts[:, -1].tolist()

    def step(length: int) -> list[int]:
        batch = ForwardBatch(
            token_ids=torch.tensor(tokens),
            positions=torch.full((num_rows,), length - 1),
            slot_mapping=first_rows + length - 1,
            query_lens=[1] * num_rows,
            context_lens=[length] * num_rows,
            block_tables=tables,
            logit_rows=torch.arange(num_rows),
        )
        return sample(model.forward(batch), params, [0] * num_rows)

    return step


def prepare_transformers(name: str | None, dtype: torch.dtype, prompts: torch.Tensor) -> Step:
    """The same, with the cache that transformers' own ``generate`` uses; a turn starts from a copy of the prompts'."""
    from transformers import AutoModelForCausalLM, DynamicCache

    model: Any = AutoModelForCausalLM.from_pretrained(resolve(name), dtype=dtype, attn_implementation="sdpa")
    filled = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(prompts[:, :-1], past_key_values=filled, use_cache=True)
    tokens = prompts[:, -1:]
    cache = copy.deepcopy(filled)

    @torch.inference_mode()
    def step(length: int) -> list[int]:
        nonlocal cache
        if cache.get_seq_length() != length - 1:
            cache = copy.deepcopy(filled)
        logits = model(tokens, past_key_values=cache, use_cache=True).logits
        chosen: list[int] = logits[:, -1].float().argmax(-1).tolist()
        return chosen

    return step


if __name__ == "__main__":
    main()
