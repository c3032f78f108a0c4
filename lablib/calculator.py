"""``python -m lablib memory``: where each gigabyte of a GPU goes, and how many requests that leaves room for."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any, cast

from lablib.executor.cost import DEVICES, SHAPES
from lablib.limits import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from lablib.memory import BLOCK_SIZE, GPU_MEMORY_UTILIZATION, MemoryPlan, PoolSizeError, keep_back
from lablib.paper_memory import paper_plan

DTYPES = {"bf16": ("bfloat16", 2), "fp16": ("float16", 2), "float32": ("float32", 4)}
THIS_MACHINE = ("cpu", "cuda")
_ON_PAPER, _MEASURED = "llama-3-8b", "smollm2-135m"  # the model that nobody named; the course's own can be loaded


def register(subparsers: Any) -> None:
    """Add the command to ``python -m lablib``."""
    parser = subparsers.add_parser("memory", help="say where each gigabyte of a GPU goes, and how many requests fit")
    on = parser.add_argument_group("model and machine")
    on.add_argument("--model", choices=SHAPES, help=f"({_ON_PAPER}; {_MEASURED} on cpu and cuda)")
    where = on.add_mutually_exclusive_group()
    paper_or_here = "on paper; cpu and cuda: this machine, measured (%(default)s)"
    where.add_argument("--device", choices=[*DEVICES, *THIS_MACHINE], default="h100", help=paper_or_here)
    where.add_argument("--memory-gb", type=float, help="10⁹ bytes of memory, for a device that is not in the list")
    on.add_argument("--dtype", choices=DTYPES, help="of weights and KV cache (bf16; on cpu and cuda the fastest)")
    share = f"share of the memory that the engine may use ({GPU_MEMORY_UTILIZATION}; on cpu a cache of 256 MB)"
    on.add_argument("--gpu-memory-utilization", type=float, help=share)
    load = parser.add_argument_group("limits and requests")
    step = "most tokens of a step (%(default)s)"
    load.add_argument("--max-num-batched-tokens", type=int, default=MAX_NUM_BATCHED_TOKENS, help=step)
    load.add_argument("--max-num-seqs", type=int, default=MAX_NUM_SEQS, help="most rows of a step (%(default)s)")
    load.add_argument("--block-size", type=int, default=BLOCK_SIZE, help="tokens of a KV block (%(default)s)")
    load.add_argument("--max-model-len", type=int, default=2048, help="most tokens of a request (%(default)s)")
    load.add_argument("--mean-tokens", type=float, help="tokens that a running request holds on average")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Split the memory as the flags say, print it, and return the exit code: 1 when the model does not fit."""
    try:
        plan = measured(args) if args.device in THIS_MACHINE else on_paper(args, args.model or _ON_PAPER)
        print(json.dumps(numbers(plan, args), indent=1, ensure_ascii=False) if args.json else table(plan, args))
    except PoolSizeError as error:
        print("\n".join([f"memory: {error}", *what_fits(args)]), file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"memory: {error}", file=sys.stderr)
        return 2
    return 0


def on_paper(args: argparse.Namespace, model: str, device: str | None = None) -> MemoryPlan:
    """The plan for a model, on the device that the flags name or on another of the list."""
    return paper_plan(
        SHAPES[model],
        device or _device(args),
        _memory(args) if device is None else int(DEVICES[device][0].memory or 0),
        DTYPES[args.dtype or "bf16"][1],
        _utilization(args),
        args.max_num_batched_tokens,
        args.max_num_seqs,
        args.block_size,
    )


def _device(args: argparse.Namespace) -> str:
    return str(args.device) if args.memory_gb is None else f"a device of {args.memory_gb:g} GB"


def _memory(args: argparse.Namespace) -> int:
    if args.memory_gb is not None:
        if not 0 < args.memory_gb < math.inf:
            raise ValueError(f"--memory-gb must be a number above 0, got {args.memory_gb:g}")
        return int(args.memory_gb * 1e9)
    memory = DEVICES[args.device][0].memory
    if memory is None:
        raise ValueError(f"{args.device} has no fixed memory: give --memory-gb instead of --device")
    return int(memory)


def _utilization(args: argparse.Namespace) -> float:
    given = args.gpu_memory_utilization
    return GPU_MEMORY_UTILIZATION if given is None else float(given)


def measured(args: argparse.Namespace) -> MemoryPlan:
    """The plan for the course's model on this machine: it is loaded, and on a GPU its largest step is run."""
    import torch

    from lablib.executor.model import ModelExecutor
    from lablib.model import load_model

    if args.model not in (None, _MEASURED):
        raise ValueError(
            f"--device {args.device} measures this machine with {_MEASURED}: leave --model out, or choose --device "
            f"{', '.join(DEVICES)}"
        )
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"--device cuda: torch finds no GPU here; choose --device cpu, {', '.join(DEVICES)}")
    dtype = None if args.dtype is None else getattr(torch, DTYPES[args.dtype][0])
    executor = ModelExecutor(
        load_model(dtype=dtype, device=args.device),
        block_size=args.block_size,
        gpu_memory_utilization=args.gpu_memory_utilization,
        max_num_batched_tokens=args.max_num_batched_tokens,
        max_num_seqs=args.max_num_seqs,
        max_model_len=args.max_model_len,
    )
    return cast(MemoryPlan, executor.memory)  # there is one, since num_blocks was left open


def numbers(plan: MemoryPlan, args: argparse.Namespace) -> dict[str, Any]:
    """What the table says, as plain values for JSON; bytes and counts."""
    values = {
        "model": plan.model.name,
        "device": plan.device,
        "memory": plan.memory,
        "parts": {name: {"bytes": part.num_bytes, "note": part.note} for name, part in plan.parts.items()},
        "bytes_per_token": plan.bytes_per_token,
        "block_size": plan.block_size,
        "num_blocks": plan.num_blocks,
        "num_tokens": plan.num_tokens,
        "max_model_len": args.max_model_len,
        "requests_reserved": plan.requests_reserved(args.max_model_len),
    }
    if args.mean_tokens is not None:
        if args.mean_tokens > args.max_model_len:
            raise ValueError(f"a mean of {args.mean_tokens:g} tokens is more than --max-model-len {args.max_model_len}")
        on_demand = plan.requests_on_demand(args.mean_tokens)
        values |= {"mean_tokens": args.mean_tokens, "requests_on_demand": on_demand}
    return values


def table(plan: MemoryPlan, args: argparse.Namespace) -> str:
    """The same for people."""
    values = numbers(plan, args)
    counts = [
        (f"tokens in {plan.num_blocks:,} blocks of {plan.block_size:,}", plan.num_tokens),
        (f"requests that each reserve {args.max_model_len:,} tokens (model max)", values["requests_reserved"]),
    ]
    if args.mean_tokens is not None:
        counts.append(
            (f"requests that hold {args.mean_tokens:,g} tokens on average (on demand)", values["requests_on_demand"])
        )
    rows = [str(plan), "", plan.formula(), "", "The KV cache holds"]
    rows += [f"{count:>12,}  {what}" for what, count in counts]
    if values["requests_reserved"] == 0:
        rows.append(f"No request of {args.max_model_len:,} tokens fits: --max-model-len {plan.num_tokens} would.")
    if max(count for _, count in counts[1:]) > args.max_num_seqs:
        rows.append(f"Of these --max-num-seqs lets {args.max_num_seqs:,} run at once.")
    return "\n".join(rows)


def what_fits(args: argparse.Namespace) -> list[str]:
    """Which models would fit on this device, and what would hold this model, with the same flags."""
    if args.device in THIS_MACHINE:
        return []
    model = args.model or _ON_PAPER
    models = [name for name in SHAPES if _fits(args, name)]
    devices = [name for name, (machine, _) in DEVICES.items() if machine.memory and _fits(args, model, name)]
    return [
        f"Models that fit on {_device(args)}: {', '.join(models) or 'none of the list'}.",
        f"Devices that hold {model}: {', '.join(devices) or 'none of the list'}.",
        *_beyond_one_device(args, model),
    ]


def _fits(args: argparse.Namespace, model: str, device: str | None = None) -> bool:
    try:
        on_paper(args, model, device)
    except PoolSizeError:
        return False
    return True


def _beyond_one_device(args: argparse.Namespace, model: str) -> list[str]:
    """How far weights are from fitting at all; empty when they do."""
    memory, utilization, itemsize = _memory(args), _utilization(args), DTYPES[args.dtype or "bf16"][1]
    limit = memory - keep_back(memory, utilization).num_bytes
    num_weights = SHAPES[model].num_weights
    if num_weights * itemsize <= limit:
        return []
    devices, bits = math.ceil(num_weights * itemsize / limit), 8 * limit / num_weights
    return [
        f"Its weights would need at least {devices} such devices side by side (tensor parallelism), or less than "
        f"{bits:.1f} bits each (quantisation); this engine does neither."
    ]
