"""``python -m lablib simulate``: a workload, a scheduler, a machine that is not here, and what would happen."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from lablib import report
from lablib.engine import Engine
from lablib.executor import DEVICES, SimulatedExecutor, preset
from lablib.executor.cost import SHAPES
from lablib.kvcache import OutOfBlocks
from lablib.limits import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from lablib.metrics import SLO
from lablib.request import RequestOutput
from lablib.scheduler import ContinuousBatching, DynamicBatching, Scheduler, StaticBatching
from lablib.scheduler.policies import Admission, ReserveMaxTokens, ReserveModelMax, ReservePrompt
from lablib.workload import NAMES, AllAtOnce, ArrivalProcess, ClosedLoop, Gamma, OnOff, Poisson, Workload, named

T = TypeVar("T")
N = TypeVar("N", int, float)
SCHEDULERS = ("static", "dynamic", "continuous")
ARRIVALS = ("published", "poisson", "gamma", "burst", "closed", "all-at-once")
RESERVES = ("model-max", "max-tokens", "prompt")
# Flags that only some choices of another flag give a meaning to.
_ONLY_FOR = {
    "rate": ("arrivals", ("published", "poisson", "gamma", "burst")),
    "cv": ("arrivals", ("gamma",)),
    "on_seconds": ("arrivals", ("burst",)),
    "off_seconds": ("arrivals", ("burst",)),
    "clients": ("arrivals", ("closed",)),
    "think": ("arrivals", ("closed",)),
    "batch_size": ("scheduler", ("static", "dynamic")),
    "max_wait": ("scheduler", ("dynamic",)),
    "preferred_batch_sizes": ("scheduler", ("dynamic",)),
    "max_num_seqs": ("scheduler", ("continuous",)),
    "max_num_batched_tokens": ("scheduler", ("continuous",)),
    "block_size": ("scheduler", ("continuous",)),
    "num_blocks": ("scheduler", ("continuous",)),
    "reserve": ("scheduler", ("continuous",)),
    "watermark": ("reserve", ("prompt",)),
}


class UsageError(ValueError):
    """Flags that don't go together; the message names them, the limit and the remedy."""


class WatchedEngine(Engine):
    """An engine that shows on stderr how many requests are done; ``TQDM_DISABLE=1`` keeps it silent."""

    bar: tqdm[Any] | None = None

    def step(self) -> list[RequestOutput]:
        outputs = super().step()
        if self.bar is not None:
            self.bar.update(sum(output.finished for output in outputs))
        return outputs


def register(subparsers: Any) -> None:
    """Add the command to ``python -m lablib``."""
    parser = subparsers.add_parser("simulate", help="run a workload on a scheduler and a machine that is not here")
    load = parser.add_argument_group("workload")
    load.add_argument("--workload", choices=NAMES, default="chat", help="published lengths and arrivals (%(default)s)")
    load.add_argument("--workload-file", type=Path, metavar="FILE.json", help="a saved workload instead, as it stands")
    load.add_argument("--requests", type=_count, help="how many (1000)")
    load.add_argument("--arrivals", choices=ARRIVALS, default="published", help="arrival process (%(default)s)")
    load.add_argument("--rate", type=_positive, help="requests a second (the published rate; while it is on for burst)")
    load.add_argument("--cv", type=_not_negative, help="coefficient of variation of the gaps, for gamma (2)")
    load.add_argument("--on-seconds", type=_positive, help="length of a burst (5)")
    load.add_argument("--off-seconds", type=_not_negative, help="silence after a burst (15)")
    load.add_argument("--clients", type=_count, help="clients that wait for their answers, for closed (32)")
    load.add_argument("--think", type=_not_negative, help="seconds between an answer and the next request (0)")
    load.add_argument("--length-scale", type=_positive, default=1.0, help="factor on all lengths (%(default)s)")
    load.add_argument("--seed", type=int, default=0, help="of the workload (%(default)s)")
    how = parser.add_argument_group("scheduler")
    how.add_argument("--scheduler", choices=SCHEDULERS, default="continuous", help="(%(default)s)")
    how.add_argument("--batch-size", type=_count, help="rows of a batch, for static and dynamic (8)")
    how.add_argument("--max-wait", type=_not_negative, help="seconds that the oldest waits, for dynamic (0)")
    how.add_argument("--preferred-batch-sizes", type=_counts, help="such as 4,8, for dynamic (the batch size)")
    how.add_argument("--max-num-seqs", type=_count, help=f"slots, for continuous ({MAX_NUM_SEQS})")
    how.add_argument(
        "--max-num-batched-tokens",
        type=_count,
        help=f"tokens of a step ({MAX_NUM_BATCHED_TOKENS}, or a full prompt and all decodes)",
    )
    how.add_argument("--max-model-len", type=_count, help="tokens of a request (the longest of the workload)")
    how.add_argument("--block-size", type=_count, help="tokens of a KV block (one block a request)")
    how.add_argument("--num-blocks", type=_count, help="blocks of the KV cache (enough for all slots)")
    how.add_argument("--reserve", choices=RESERVES, help="KV cache given to a request that starts (model-max)")
    how.add_argument("--watermark", type=_not_negative, help="share of the blocks kept free for growth, for prompt (0)")
    on = parser.add_argument_group("machine and results")
    on.add_argument("--device", choices=DEVICES, default="h100", help="(%(default)s)")
    on.add_argument("--model", choices=SHAPES, default="llama-3-8b", help="(%(default)s)")
    on.add_argument("--slo-ttft", type=_positive, help="goodput: most seconds to the first token")
    on.add_argument("--slo-tpot", type=_positive, help="goodput: most seconds per output token after the first")
    on.add_argument("--json", action="store_true", help="print JSON instead of a table")
    on.add_argument("--save", type=Path, metavar="TRACE.json.gz", help="keep the trace, for StepPlayer and tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Simulate what the flags ask for, print the numbers, and return the exit code."""
    try:
        _require_fitting_flags(args)
        workload = build_workload(args)
        scheduler = build_scheduler(args, workload.max_model_len)
    except ValueError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    cost = preset(args.device, args.model)
    engine = WatchedEngine(scheduler, SimulatedExecutor(cost), workload=workload.name)
    try:
        with tqdm(total=len(workload), unit=" requests", delay=1) as bar:
            engine.bar = bar
            engine.run(workload)
    except OutOfBlocks as error:
        kept = f"; the trace up to there is in {args.save}" if args.save is not None else ""
        print(f"simulate: {error} (--num-blocks, --watermark, --reserve max-tokens){kept}", file=sys.stderr)
        return 1
    finally:
        if args.save is not None:
            engine.trace.save(args.save)
    trace = engine.trace
    slo = None if args.slo_ttft is None and args.slo_tpot is None else SLO(ttft=args.slo_ttft, tpot=args.slo_tpot)
    numbers = report.numbers(trace, cost, slo)
    print(json.dumps(numbers, indent=1) if args.json else report.table(numbers, workload.source))
    return 0


def build_workload(args: argparse.Namespace) -> Workload:
    """The workload that the flags describe."""
    if args.workload_file is not None:
        return Workload.load(args.workload_file).scaled(length=args.length_scale)
    arrivals, rate = build_arrivals(args), args.rate if args.arrivals == "published" else None
    requests = _given(args.requests, 1000)
    return named(args.workload, requests, rate, args.seed, arrivals).scaled(length=args.length_scale)


def build_arrivals(args: argparse.Namespace) -> ArrivalProcess | None:
    """The arrival process that the flags describe; ``None``: the workload's own."""
    rate = 1.0 if args.rate is None else args.rate
    processes: dict[str, Callable[[], ArrivalProcess | None]] = {
        "published": lambda: None,
        "poisson": lambda: Poisson(rate),
        "gamma": lambda: Gamma(rate, _given(args.cv, 2.0)),
        "burst": lambda: OnOff(rate, _given(args.on_seconds, 5.0), _given(args.off_seconds, 15.0)),
        "closed": lambda: ClosedLoop(_given(args.clients, 32), _given(args.think, 0.0)),
        "all-at-once": AllAtOnce,
    }
    return processes[args.arrivals]()


def build_scheduler(args: argparse.Namespace, longest: int) -> Scheduler:
    """The scheduler that the flags describe, for requests of up to ``longest`` tokens unless a flag says less."""
    max_model_len = _given(args.max_model_len, longest)
    batch_size = _given(args.batch_size, 8)
    if args.scheduler == "static":
        return StaticBatching(batch_size, max_model_len)
    if args.scheduler == "dynamic":
        return DynamicBatching(batch_size, max_model_len, _given(args.max_wait, 0.0), args.preferred_batch_sizes or ())
    return ContinuousBatching(
        _given(args.max_num_seqs, MAX_NUM_SEQS),
        max_model_len,
        args.max_num_batched_tokens,
        args.block_size,
        args.num_blocks,
        build_admission(args),
    )


def build_admission(args: argparse.Namespace) -> Admission:
    """The reserve rule that the flags describe."""
    if args.reserve == "prompt":
        return ReservePrompt(_given(args.watermark, 0.0))
    return ReserveMaxTokens() if args.reserve == "max-tokens" else ReserveModelMax()


def _require_fitting_flags(args: argparse.Namespace) -> None:
    """Refuse a flag that has no effect with the others, instead of ignoring it."""
    for name, (other, choices) in _ONLY_FOR.items():
        chosen = _given(getattr(args, other), RESERVES[0])  # of these only --reserve may be left open
        if getattr(args, name) is not None and chosen not in choices:
            raise UsageError(
                f"{_flag(name)} has no effect with {_flag(other)} {chosen}: leave it out, "
                f"or choose {_flag(other)} {' or '.join(choices)}"
            )
    if args.workload_file is not None:
        if not args.workload_file.is_file():
            raise UsageError(f"--workload-file: there is no file {args.workload_file}; make one with Workload.save()")
        if args.requests is not None or args.rate is not None or args.arrivals != "published":
            raise UsageError(
                "--workload-file has its own requests and arrivals: leave --requests, --rate, --arrivals out"
            )
    if args.save is not None and not args.save.absolute().parent.is_dir():
        raise UsageError(f"--save: there is no folder {args.save.absolute().parent}; make it, or name another")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _given(value: T | None, default: T) -> T:
    return default if value is None else value


def _number(kind: Callable[[str], N], text: str, wanted: str, fits: Callable[[N], bool]) -> N:
    try:
        value = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {wanted}, got {text!r}") from None
    if not fits(value):
        raise argparse.ArgumentTypeError(f"must be {wanted}, got {text}")
    return value


def _count(text: str) -> int:
    return _number(int, text, "a whole number of at least 1", lambda value: value >= 1)


def _positive(text: str) -> float:
    return _number(float, text, "a number above 0, such as 0.5", lambda value: 0 < value < float("inf"))


def _not_negative(text: str) -> float:
    return _number(float, text, "a number of at least 0", lambda value: 0 <= value < float("inf"))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))
