"""One decode step of a whole model with PyTorch's attention and with the Triton kernels, on one GPU.

The model has the shape of SmolLM2-135M and random weights; every row has ``--context`` tokens in scattered blocks. The
two take turns; times are from the host's side, launches included, up to the sampled tokens.

    python benchmarks/backends.py --batch 64 --context 1024
    python benchmarks/backends.py --device cpu --layers 1 --batch 2 --context 20    # in the interpreter: that it runs
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from functools import partial
from pathlib import Path

import torch
from gpu_timing import describe, eager

import lablib  # noqa: F401  # isort: split
from lablib.model import ForwardBatch, LanguageModel, sample, toy_model
from lablib.model.loading import BackendName, make_backend
from lablib.request import SamplingParams


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, default=64, help="rows that decode together (%(default)s)")
    parser.add_argument("--context", type=int, default=1024, help="keys that each row attends to (%(default)s)")
    parser.add_argument("--block-size", type=int, default=16, help="tokens in a KV block (%(default)s)")
    parser.add_argument("--layers", type=int, default=30, help="decoder layers (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="turns that each side takes (%(default)s)")
    parser.add_argument("--out", type=Path, help="where to write JSON")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("backends: torch finds no CUDA GPU here; --device cpu runs the interpreter", file=sys.stderr)
        return 2
    device = torch.device(args.device)
    backends: tuple[BackendName, ...] = ("torch", "triton")
    steps = {name: partial(step, *prepared(name, args, device)) for name in backends}
    timers = {name: eager([run], device) for name, run in steps.items()}
    for timer in timers.values():
        timer()  # compiles
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(args.rounds):
        for name, timer in timers.items():
            times[name].append(timer())
    seconds = {name: statistics.median(values) for name, values in times.items()}
    shape = {name: getattr(args, name) for name in ("batch", "context", "block_size", "layers")}
    record = {**describe(device), **shape, "seconds": seconds}
    print(json.dumps(record, indent=1))
    print(f"ratio: {seconds['triton'] / seconds['torch']:.3f}")
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def prepared(name: BackendName, args: argparse.Namespace, device: torch.device) -> tuple[LanguageModel, ForwardBatch]:
    """A model of SmolLM2's shape with a cache full of noise, and a batch of decodes."""
    model = toy_model(
        dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
        num_layers=args.layers,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        vocab_size=49_152,
        max_model_len=args.context + 1,
        backend=make_backend(name),
        device=device,
    )
    width = -(-args.context // args.block_size)
    tables = torch.randperm(args.batch * width).view(args.batch, width)
    model.allocate_cache(args.batch * width, args.block_size)
    model.backend.cache.normal_()  # type: ignore[attr-defined]
    last = args.context - 1
    rows = torch.arange(args.batch, device=device)
    batch = ForwardBatch(
        token_ids=rows,
        positions=torch.full_like(rows, last),
        slot_mapping=(tables[:, -1] * args.block_size + last % args.block_size).to(device),
        query_lens=[1] * args.batch,
        starts=[last] * args.batch,
        context_lens=[args.context] * args.batch,
        block_tables=tables.tolist(),
        logit_rows=rows,
    )
    return model, batch


def step(model: LanguageModel, batch: ForwardBatch) -> list[int]:
    """One step, up to its tokens."""
    rows = len(batch.query_lens)
    return sample(model.forward(batch), [SamplingParams()] * rows, [0] * rows)


if __name__ == "__main__":
    sys.exit(main())
