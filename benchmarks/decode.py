"""One decode step of this project's model beside the same step of transformers, on the same weights.

Both compute one token a row from a cache of ``--context`` tokens and take the argmax. The two take turns within one
process, so that a noisy machine is noisy for both. The last line is ``ratio: ours / transformers`` of the medians.

Our KV blocks are scattered, as in a pool that has been in use for a while. With ``--ragged`` the rows differ in length,
from 20 tokens to ``--context``; that is measured for this project alone, as transformers pads such a batch.

    python benchmarks/decode.py --batch 8 --context 128 --dtype bfloat16
    python benchmarks/decode.py --batch 32 --context 1000 --block-size 16 --ragged
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import lablib  # noqa: F401 - before torch: it says how torch's threads wait for each other

# isort: split
import torch

from lablib.model import ForwardBatch, LanguageModel, load_model, sample
from lablib.model.checkpoint import resolve
from lablib.request import SamplingParams

Step = Callable[[int], list[int]]  # tokens that each row has grown by -> one token a row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint directory or hub id; the course's model if absent")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--batch", type=int, default=8, help="rows that decode together")
    parser.add_argument("--context", type=int, default=128, help="keys that each row attends to")
    parser.add_argument("--ragged", action="store_true", help="rows of 20 to --context keys, evenly spread")
    parser.add_argument(
        "--block-size", type=int, help="tokens in a KV block; one block for the whole context if absent"
    )
    parser.add_argument("--rounds", type=int, default=8, help="turns that each side takes")
    parser.add_argument("--steps", type=int, default=12, help="steps in a turn")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads for both sides")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)

    lengths = torch.full((args.batch,), args.context)
    if args.ragged:
        lengths = torch.linspace(20, args.context, args.batch).long()[torch.randperm(args.batch, generator=seeded())]
    prompts = [torch.randint(1000, 40_000, (length,), generator=seeded(i)) for i, length in enumerate(lengths.tolist())]
    most = args.context + args.steps
    sides = {"lablib": prepare_lablib(load_model(args.model, dtype), prompts, args.steps, args.block_size or most)}
    if not args.ragged:
        sides["transformers"] = prepare_transformers(args.model, dtype, torch.stack(prompts))
    medians = report(args, measure(sides, args.rounds, args.steps))
    if not args.ragged:
        print(f"ratio: {medians['lablib'] / medians['transformers']:.3f}")


def report(args: argparse.Namespace, seconds: dict[str, list[float]]) -> dict[str, float]:
    """Prints a line for each side; returns the median of each."""
    context = f"20 to {args.context}" if args.ragged else args.context
    print(f"decode step, {args.dtype}, batch {args.batch}, context {context}, {args.threads} threads")
    print(f"{'':14}{'median ms':>10}{'fastest':>9}{'tokens/s':>10}")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:14}{median * 1e3:10.2f}{min(seconds[name]) * 1e3:9.2f}{args.batch / median:10.0f}")
    return medians


def measure(sides: dict[str, Step], rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of every step, the sides taking turns; each turn's first step is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, step in sides.items():
            step(0)
            for i in range(steps):
                start = time.perf_counter()
                step(i)
                seconds[name].append(time.perf_counter() - start)
    return seconds


def seeded(seed: int = 0) -> torch.Generator:
    """The same numbers in every run."""
    return torch.Generator().manual_seed(seed)


def prepare_lablib(model: LanguageModel, prompts: list[torch.Tensor], steps: int, block_size: int) -> Step:
    """Fills the cache with the prompts, leaving room for ``steps`` tokens behind each."""
    sizes = [-(-(len(prompt) + steps) // block_size) for prompt in prompts]
    tables = [ids.tolist() for ids in torch.split(torch.randperm(sum(sizes), generator=seeded()), sizes)]
    model.allocate_cache(sum(sizes), block_size)
    for prompt, table in zip(prompts, tables, strict=True):
        places = torch.arange(len(prompt))
        slots = torch.tensor(table)[places // block_size] * block_size + places % block_size
        model.forward(ForwardBatch(prompt, places, slots, [len(prompt)], [0], [len(prompt)], [table], places[-1:]))
    tokens = torch.stack([prompt[-1] for prompt in prompts])
    params = [SamplingParams()] * len(prompts)

    def step(grown: int) -> list[int]:
        lasts = [len(prompt) + grown - 1 for prompt in prompts]
        slots = [table[p // block_size] * block_size + p % block_size for table, p in zip(tables, lasts, strict=True)]
        batch = ForwardBatch(
            token_ids=tokens,
            positions=torch.tensor(lasts),
            slot_mapping=torch.tensor(slots),
            query_lens=[1] * len(lasts),
            starts=lasts,
            context_lens=[last + 1 for last in lasts],
            block_tables=tables,
            logit_rows=torch.arange(len(lasts)),
        )
        return sample(model.forward(batch), params, [0] * len(lasts))

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
    def step(grown: int) -> list[int]:
        nonlocal cache
        if cache.get_seq_length() != filled.get_seq_length() + grown:
            cache = copy.deepcopy(filled)
        logits = model(tokens, past_key_values=cache, use_cache=True).logits
        chosen: list[int] = logits[:, -1].float().argmax(-1).tolist()
        return chosen

    return step


if __name__ == "__main__":
    main()
