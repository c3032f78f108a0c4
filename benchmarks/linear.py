"""The linear layers of one decode step, with weights kept in each of the ways that PyTorch offers.

All layers of the default model are run after one another, so that weights come from memory, as in a step. The ways take
turns; times are medians. The floor is the time in which the weights alone are read, at the bandwidth measured under the
same conditions; ``floor`` in the table is the share of the time that it makes up.

Weights are rounded to bf16, as a checkpoint's are, and small enough that fp16 holds them exactly: all ways multiply the
same numbers.

    python benchmarks/linear.py
    python benchmarks/linear.py --avx2 --cores 1            # as on a CPU without AVX-512
    python benchmarks/linear.py --avx2 --cores 1 --hog      # and with another process reading memory all the time
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
if "--avx2" in sys.argv:  # read when torch is imported
    os.environ.update(AVX2)

import lablib  # noqa: E402, F401

# isort: split

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from lablib.measure import read_bandwidth  # noqa: E402
from lablib.model.checkpoint import resolve  # noqa: E402
from lablib.model.config import ModelConfig, read_config  # noqa: E402

Layer = Callable[[torch.Tensor], torch.Tensor]
HOG = "import numpy; a = numpy.ones(2**26)\nwhile True: a.sum()"


def plain(weight: torch.Tensor) -> Layer:
    return lambda x: F.linear(x, weight)


def onednn(weight: torch.Tensor) -> Layer:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def fbgemm(weight: torch.Tensor) -> Layer:
    packed = torch.ops.quantized.linear_prepack_fp16(weight, None)
    return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)


# how a weight is kept, its dtype, the dtype of what it is multiplied with
WAYS = {
    "float32, F.linear": (plain, torch.float32, 4),
    "float32, oneDNN": (onednn, torch.float32, 4),
    "fp16, FBGEMM": (fbgemm, torch.float32, 2),
    "bf16, F.linear": (plain, torch.bfloat16, 2),
    "bf16, oneDNN": (onednn, torch.bfloat16, 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128], help="tokens in a step")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to compute on")
    parser.add_argument("--hog", action="store_true", help="let a process on another core read memory meanwhile")
    parser.add_argument("--avx2", action="store_true", help="use no instructions beyond AVX2")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of keeping a weight")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each way takes")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if args.hog and args.cores >= len(cores):
        parser.error(f"--hog needs a core of its own: lower --cores below {len(cores)}")
    os.sched_setaffinity(0, cores[: args.cores])
    torch.set_num_threads(args.cores)
    if args.avx2:
        limit_fbgemm_to_avx2()

    torch.manual_seed(0)
    shapes = layer_shapes(read_config(resolve(None)))
    layers = built(shapes, args.ways)
    with hog(cores[-1]) if args.hog else nothing():
        bandwidth = statistics.median(read_bandwidth() for _ in range(3))
        print(f"{cpu_name()}, {args.cores} cores{', AVX2 only' * args.avx2}{', beside a reader of memory' * args.hog}")
        print(f"memory is read at {bandwidth / 1e9:.1f} GB/s")
        for batch in args.batches:
            report(batch, shapes, layers, bandwidth, args.rounds)


def layer_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """``(out_features, in_features)`` of every linear layer of a step, in order."""
    hidden, wide = config.hidden_size, config.intermediate_size
    attended = config.num_heads * config.head_dim
    qkv = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    layer = [(qkv, hidden), (hidden, attended), (2 * wide, hidden), (hidden, wide)]
    return [*layer * config.num_layers, (config.vocab_size, hidden)]


def built(shapes: list[tuple[int, int]], ways: list[str]) -> dict[str, list[Layer]]:
    """Each way's layers, all of the same weights; a way that this PyTorch or CPU lacks is named and left out."""
    layers: dict[str, list[Layer]] = {name: [] for name in ways}
    for shape in shapes:
        weight = (torch.randn(shape) * shape[1] ** -0.5).bfloat16().half().float()
        for name in list(layers):
            make, dtype, _ = WAYS[name]
            try:
                layers[name].append(make(weight.to(dtype)))
            except (AttributeError, RuntimeError) as error:
                print(f"{name}: not here ({str(error).splitlines()[0]})")
                del layers[name]
    return layers


@torch.inference_mode()
def report(
    batch: int, shapes: list[tuple[int, int]], layers: dict[str, list[Layer]], bandwidth: float, rounds: int
) -> None:
    """Prints a line a way: time, its ratio to the first's, bytes a second and the floor's share."""
    inputs = {n: torch.randn(batch, n) for _, n in shapes}
    times: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(rounds + 1):
        for name, chain in layers.items():
            xs = {n: x.to(WAYS[name][1]) for n, x in inputs.items()}
            start = time.perf_counter()
            for (_, n), layer in zip(shapes, chain, strict=True):
                layer(xs[n])
            times[name].append(time.perf_counter() - start)
    weights = sum(m * n for m, n in shapes)
    print(f"\n{f'batch {batch}':<20}{'ms':>8}{'ratio':>8}{'GB/s':>8}{'floor ms':>10}{'floor':>8}{'GFLOP/s':>10}")
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, seconds in medians.items():
        num_bytes = weights * WAYS[name][2]
        floor = num_bytes / bandwidth
        ratio = seconds / medians["float32, oneDNN"]
        print(
            f"{name:<20}{seconds * 1e3:8.1f}{ratio:8.2f}{num_bytes / seconds / 1e9:8.1f}{floor * 1e3:10.1f}"
            f"{floor / seconds:8.0%}{2 * batch * weights / seconds / 1e9:10.0f}"
        )


def limit_fbgemm_to_avx2() -> None:
    """FBGEMM asks the CPU and no environment variable; it has a function for its own tests (``inst_set_t::avx2``)."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    library._ZN6fbgemm14fbgemmForceIsaENS_10inst_set_tE(1)


@contextmanager
def hog(core: int) -> Iterator[None]:
    process = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", HOG])
    time.sleep(2)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def nothing() -> Iterator[None]:
    yield


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a CPU")


if __name__ == "__main__":
    main()
