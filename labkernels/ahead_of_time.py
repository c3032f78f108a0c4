"""Compile kernels without a GPU, and read off what became of them: registers, spills, shared memory, width of loads.

Run as a program (``TRITON_INTERPRET=0 python -m labkernels.ahead_of_time 80 90``) it compiles every variant for the
compute capabilities it is given and prints JSON. That takes a process of its own, because kernels that were decorated
for the interpreter can't be compiled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .runtime import triton
from .sizes import ceil_div
from .variants import TYPE_NAMES, Variant, variants

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
WIDE = 16  # bytes: the most that one thread loads at once
SHARED_MEMORY = {75: 64, 80: 164, 86: 100, 89: 100, 90: 228}  # KB on a multiprocessor, by compute capability (NVIDIA)
REGISTERS = 65_536  # on a multiprocessor
MAX_THREADS = {75: 1024, 80: 2048, 86: 1536, 89: 1536, 90: 2048}


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a variant.

    Args:
        kernel: its name.
        note: what else sets the variant apart.
        model: whose heads.
        dtype: of the cache.
        capability: compute capability, 80 for sm_80.
        registers: of a thread, at most 255.
        spilled: bytes of a thread that did not fit its registers and go through memory.
        shared: bytes of shared memory of a program.
        wide_loads: loads of 16 bytes a thread.
        narrow_loads: smaller ones: block tables, lengths, slots; K and V should not be among them.
        narrowest: bytes of the smallest load.
        resident: programs that a multiprocessor has room for at once.
    """

    kernel: str
    note: str
    model: str
    dtype: str
    capability: int
    registers: int
    spilled: int
    shared: int
    wide_loads: int
    narrow_loads: int
    narrowest: int
    resident: int


def compile_variant(variant: Variant, capability: int) -> Compiled:
    """Compile for a GPU of this compute capability, whether or not there is one."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = [param.name for param in variant.kernel.params]
    signature = {name: variant.types.get(name, "constexpr") for name in names}
    constants = {(names.index(name),): value for name, value in variant.constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in variant.aligned}
    built = triton.compile(
        ASTSource(variant.kernel, signature, constexprs=constants, attrs=aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": variant.num_warps, "num_stages": variant.num_stages},
    )
    registers, spilled = _resources(built.asm["cubin"])
    shared = int(built.metadata.shared)
    loads = load_sizes(built.asm["ptx"])
    return Compiled(
        kernel=variant.kernel.__name__.removesuffix("_kernel"),
        note=variant.note,
        model=variant.heads.model,
        dtype=TYPE_NAMES[variant.dtype],
        capability=capability,
        registers=registers,
        spilled=spilled,
        shared=shared,
        wide_loads=loads[WIDE],
        narrow_loads=loads.total() - loads[WIDE],
        narrowest=min(loads),
        resident=resident_programs(capability, 32 * variant.num_warps, registers, shared),
    )


def load_sizes(ptx: str) -> Counter[int]:
    """How many loads from global memory of how many bytes a thread stand in a kernel's PTX."""
    sizes: Counter[int] = Counter()
    for vector, bits in re.findall(r"\bld\.global[\w.:]*?(?:\.v(\d))?\.[bfsu](\d+)\b", ptx):
        sizes[int(vector or 1) * int(bits) // 8] += 1
    # asynchronous copies to shared memory, which the compiler makes of loads in a loop
    sizes.update(int(size, 0) for size in re.findall(r"\bcp\.async\.c[ag]\.shared\.global[^;]*?\], (\w+)", ptx))
    return sizes


def resident_programs(capability: int, threads: int, registers: int, shared: int) -> int:
    """Programs that fit on one multiprocessor together, by threads, registers (given out 8 at a time) and memory."""
    by_registers = REGISTERS // (ceil_div(registers, 8) * 8 * threads)
    by_memory = SHARED_MEMORY[capability] * 1024 // (shared + 1024)  # 1 KB a program is the system's own
    return min(MAX_THREADS[capability] // threads, by_registers, by_memory, 32)


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes of a thread, from the tool that Triton brings along."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise RuntimeError(f"cuobjdump named no registers: {text}")
    return int(found[1]), int(found[2])


def main(capabilities: list[int]) -> None:
    rows: list[dict[str, Any]] = [
        asdict(compile_variant(variant, capability))
        for capability in capabilities
        for dtype in DTYPES
        for variant in variants(dtype, capability)
        if capability >= 80 or dtype != torch.bfloat16  # older GPUs have no bfloat16 arithmetic
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
