"""The Triton kernels beside their PyTorch twins and PyTorch's own attention, on the same data and one GPU.

Each entry is one kernel at one shape: microseconds, bytes it must move, and the share of the copy bandwidth that was
measured in the same run. The contenders take turns; times are medians of event timings. SDPA and flex_attention read K
and V that somebody has gathered into one piece for them, which costs nothing here: they show the price of scattered
blocks.

    python benchmarks/kernel_times.py --out benchmarks/results/kernels-h200.json
    python benchmarks/kernel_times.py --device cpu   # tiny shapes in the interpreter: that it runs, no speed
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from gpu_timing import captured, copy_bandwidth, describe, eager
from torch import Tensor

import lablib  # noqa: F401  # isort: split
from labkernels import (
    cache_write,
    cache_write_torch,
    paged_decode,
    paged_decode_torch,
    paged_prefill,
    paged_prefill_torch,
)
from labkernels.cache_write import bytes_moved as write_bytes
from labkernels.paged_decode import bytes_moved as decode_bytes
from labkernels.paged_decode import flops as decode_flops
from labkernels.paged_prefill import bytes_moved as prefill_bytes
from labkernels.paged_prefill import flops as prefill_flops
from labkernels.sizes import Heads

SMOLLM2 = Heads(9, 3, 64, "SmolLM2-135M")
LLAMA_3 = Heads(32, 8, 128, "Llama-3-8B")
CACHED = 200e6  # bytes: more than any L2 cache; smaller data come in several copies that take turns
KEPT = ("kernel", "shape", "bytes", "flops", "seconds", "absent")  # of a case, in the JSON
Run = Callable[[], object]


@dataclass(slots=True)
class Case:
    """One kernel at one shape: what it must move and compute, and who computes it."""

    kernel: str
    shape: str
    bytes: int
    flops: int
    contenders: dict[str, list[Run]]  # name → one call for each copy of the data
    seconds: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # contenders that could not run, and why


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=20, help="turns that each contender takes (%(default)s)")
    parser.add_argument("--flex", action="store_true", help="also compile flex_attention for the largest shapes")
    parser.add_argument("--out", type=Path, help="where to write JSON")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print(
            "kernels: torch finds no CUDA GPU here; --device cpu runs tiny shapes in the interpreter", file=sys.stderr
        )
        return 2
    device = torch.device(args.device)
    bandwidth = copy_bandwidth(device)
    record: dict[str, Any] = {**describe(device), "copy_bytes_per_s": bandwidth, "rounds": args.rounds, "cases": []}
    print(f"{record['device']}: a large copy moves {bandwidth / 1e9:.0f} GB/s (read and written)\n")
    for make in cases(device, args.flex):
        case = make()
        measure(case, device, args.rounds)
        print(line(case, bandwidth), flush=True)
        record["cases"].append({name: getattr(case, name) for name in KEPT})
        if args.out:  # after every case: what follows may fail
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def cases(device: torch.device, flex: bool) -> list[Callable[[], Case]]:
    """The shapes, each made when its turn comes, so that only one is in memory."""
    if device.type == "cpu":
        tiny = Heads(4, 2, 16, "tiny")
        return [
            partial(write_case, tiny, 8, device),
            partial(decode_case, tiny, 2, 40, 16, device, flex),
            partial(prefill_case, tiny, 1, 8, 16, 16, device, flex),
        ]
    write = [partial(write_case, heads, tokens, device) for heads in (SMOLLM2, LLAMA_3) for tokens in (64, 8192)]
    decode = [
        partial(decode_case, heads, batch, context, 16, device, flex and (batch, context) == (64, 4096))
        for heads in (SMOLLM2, LLAMA_3)
        for batch, context in ((1, 4096), (8, 1024), (64, 512), (64, 4096))
    ]
    blocks = [partial(decode_case, LLAMA_3, 64, 4096, size, device, False) for size in (1, 7, 256, 8192)]
    prefill = [
        partial(prefill_case, heads, batch, chunk, start, 16, device, flex and batch == 1 and start == 0)
        for heads in (SMOLLM2, LLAMA_3)
        for batch, chunk, start in ((1, 2048, 0), (8, 512, 0), (1, 512, 4096))
    ]
    return [*write, *decode, *blocks, *prefill]


def write_case(heads: Heads, num_tokens: int, device: torch.device) -> Case:
    """K and V of many tokens into scattered slots."""
    dtype = torch.bfloat16
    size = write_bytes(num_tokens, heads, dtype)
    calls: dict[str, list[Run]] = {"kernel": [], "twin": []}
    for _ in range(copies(size, device)):
        qkv = torch.randn(num_tokens, 3 * heads.num_kv_heads, heads.head_dim, device=device, dtype=dtype)
        k, v = qkv[:, : heads.num_kv_heads], qkv[:, -heads.num_kv_heads :]
        cache = torch.zeros(2 * num_tokens, 2, heads.num_kv_heads, heads.head_dim, device=device, dtype=dtype)
        slots = torch.randperm(len(cache), device=device)[:num_tokens]
        for name, write in (("kernel", cache_write), ("twin", cache_write_torch)):
            calls[name].append(partial(write, k, v, cache[:, 0], cache[:, 1], slots))
    return Case("cache_write", f"{heads.model}, {num_tokens} tokens", size, 0, calls)


def decode_case(heads: Heads, batch: int, context: int, block_size: int, device: torch.device, flex: bool) -> Case:
    """One query for each of ``batch`` sequences, all of ``context`` tokens."""
    dtype = torch.bfloat16
    lens = [context] * batch
    size = decode_bytes(lens, heads, dtype)
    calls: dict[str, list[Run]] = {}
    for _ in range(copies(size, device)):
        k_cache, v_cache, tables, slots = paged_cache(heads, batch, context, block_size, device)
        q = torch.randn(batch, heads.num_heads, heads.head_dim, device=device, dtype=dtype)
        args = (q, k_cache, v_cache, tables, torch.tensor(lens, dtype=torch.int32, device=device), block_size)
        there = {"query_rows": torch.arange(batch, dtype=torch.int32, device=device), "out": torch.empty_like(q)}
        k, v = (cache[slots].transpose(1, 2).contiguous() for cache in (k_cache, v_cache))
        add(calls, "kernel", partial(paged_decode, *args, **there, max_context_len=context))
        add(calls, "twin", partial(paged_decode_torch, *args))
        add(calls, "sdpa", partial(F.scaled_dot_product_attention, q[:, :, None], k, v, enable_gqa=True))
        if flex:
            add(calls, "flex", partial(compiled_flex(), q[:, :, None], k, v, enable_gqa=True))
    shape = f"{heads.model}, batch {batch}, context {context}, blocks of {block_size}"
    return Case("paged_decode", shape, size, decode_flops(lens, heads), calls)


def prefill_case(
    heads: Heads, batch: int, chunk: int, start: int, block_size: int, device: torch.device, flex: bool
) -> Case:
    """``chunk`` queries for each of ``batch`` sequences, behind ``start`` tokens of context."""
    dtype = torch.bfloat16
    context, lens = start + chunk, [start + chunk] * batch
    size = prefill_bytes([chunk] * batch, lens, heads, dtype)
    calls: dict[str, list[Run]] = {}
    for _ in range(copies(size, device)):
        k_cache, v_cache, tables, slots = paged_cache(heads, batch, context, block_size, device)
        q = torch.randn(batch * chunk, heads.num_heads, heads.head_dim, device=device, dtype=dtype)
        rows = torch.arange(batch, device=device, dtype=torch.int32) * chunk
        where = {"query_rows": rows, "query_lens": torch.full_like(rows, chunk), "starts": torch.full_like(rows, start)}
        args = (q, k_cache, v_cache, tables, torch.full_like(rows, context), block_size)
        k, v = (cache[slots].transpose(1, 2).contiguous() for cache in (k_cache, v_cache))
        queries = q.view(batch, chunk, heads.num_heads, heads.head_dim).transpose(1, 2)
        seen = torch.ones(chunk, context, dtype=torch.bool, device=device).tril(start)
        mask: dict[str, Any] = {"attn_mask": seen} if start else {"is_causal": True}
        add(calls, "kernel", partial(paged_prefill, *args, **where, max_query_len=chunk))
        add(calls, "twin", partial(paged_prefill_torch, *args, **where))
        add(calls, "sdpa", partial(F.scaled_dot_product_attention, queries, k, v, enable_gqa=True, **mask))
        if flex:
            add(
                calls,
                "flex",
                partial(compiled_flex(), queries, k, v, enable_gqa=True, block_mask=causal(chunk, device)),
            )
    shape = f"{heads.model}, batch {batch}, chunk {chunk} behind {start}, blocks of {block_size}"
    return Case("paged_prefill", shape, size, prefill_flops([chunk] * batch, lens, heads), calls)


def add(calls: dict[str, list[Run]], name: str, run: Run) -> None:
    calls.setdefault(name, []).append(run)


def copies(size: int, device: torch.device) -> int:
    """Copies of data of ``size`` bytes that together don't fit into a cache."""
    return max(1, min(32, round(CACHED / size))) if device.type == "cuda" else 1


def paged_cache(
    heads: Heads, batch: int, context: int, block_size: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """K and V cache, block tables and slots ``[batch, context]`` of sequences whose blocks lie in random order."""
    width = -(-context // block_size)
    blocks = torch.randperm(batch * width, device=device).view(batch, width)
    shape = (batch * width * block_size, 2, heads.num_kv_heads, heads.head_dim)
    cache = torch.randn(shape, device=device, dtype=torch.bfloat16)
    position = torch.arange(context, device=device)
    slots = blocks[:, position // block_size] * block_size + position % block_size
    return cache[:, 0], cache[:, 1], blocks.to(torch.int32), slots


@cache
def compiled_flex() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


@cache
def causal(chunk: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(lambda b, h, q, k: q >= k, None, None, chunk, chunk, device=str(device))


def measure(case: Case, device: torch.device, rounds: int) -> None:
    """Let the contenders take turns; the medians, in seconds a call, go into ``case.seconds``."""
    timers = {}
    for name, calls in case.contenders.items():
        try:
            for call in calls:
                call()  # compiles, and fills allocators
            timers[name] = eager(calls, device) if name == "twin" else captured(calls, device)
        except Exception as error:  # flex_attention does not compile everywhere; the kernel itself must run
            if name != "flex":
                raise
            case.absent[name] = f"{type(error).__name__}: {error}"
    times: dict[str, list[float]] = {name: [] for name in timers}
    for i in range(rounds):
        for name, timer in timers.items():
            if name != "twin" or i < 3:  # a twin takes a thousand times as long, and is not what is compared
                times[name].append(timer())
    case.seconds = {name: statistics.median(values) for name, values in times.items()}


def line(case: Case, bandwidth: float) -> str:
    """A case as text: times of all, and what share of the copy bandwidth the kernel reaches."""
    times = "  ".join(f"{name} {seconds * 1e6:9.1f} µs" for name, seconds in case.seconds.items())
    kernel = case.seconds["kernel"]
    share = case.bytes / kernel / bandwidth
    cached = ", perhaps from a cache" if case.bytes * len(case.contenders["kernel"]) < CACHED / 2 else ""
    rate = f", {case.flops / kernel / 1e12:6.1f} TFLOP/s" if case.flops else ""
    moved = f"{case.bytes / 1e6:.1f} MB: {share:.0%} of a copy{cached}{rate}"
    return f"{case.kernel:<14}{case.shape}\n    {times}\n    {moved}"


if __name__ == "__main__":
    sys.exit(main())
