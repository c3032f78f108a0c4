"""Say what this machine has, and what that means for each lab; never fail because something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from lablib import host_memory

_GB = 1e9


@dataclass(frozen=True, slots=True)
class LabNeeds:
    """What a lab asks of a machine.

    Args:
        number: of the lab, two digits.
        title: of the lab.
        minutes: of the learner's time.
        memory_bytes: of its kernel, at its peak.
        steps: all that its cells compute on the real model, in decode steps of 8 rows (see ``lablib.pace``).
        small_steps: the same where the lab takes its small workload.
    """

    number: str
    title: str
    minutes: int
    memory_bytes: float
    steps: int
    small_steps: int


LABS = (
    LabNeeds("00", "One token at a time", minutes=55, memory_bytes=1.5 * _GB, steps=300, small_steps=300),
    LabNeeds("01", "Static batching", minutes=75, memory_bytes=1.5 * _GB, steps=600, small_steps=600),
    LabNeeds("02", "Dynamic batching", minutes=50, memory_bytes=1.5 * _GB, steps=150, small_steps=150),
    LabNeeds("03", "Continuous batching", minutes=90, memory_bytes=1.5 * _GB, steps=1500, small_steps=600),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found; `lines` are (name, text) to print, `blockers` what keeps every lab from running."""

    lines: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    blockers: tuple[str, ...]
    free_memory_bytes: float | None


def inspect() -> Machine:
    """Look at this machine. Whatever cannot be found out becomes a line that says so."""
    blockers: list[str] = []
    lines = [("Python", _try(_python))]
    for package in ("torch", "transformers", "jupyterlab"):
        version = _version(package)
        lines.append((package, version or "not installed"))
        if version is None:
            blockers.append(f"{package} is missing: run `make setup`")
    lines.append(("Triton", _version("triton") or "not installed (GPU kernels use it; the labs run without)"))
    lines += [("GPU", _try(_gpu)), ("CPU", _try(_cpu)), ("Memory", _try(_memory)), ("Disk", _try(_disk))]
    try:
        lines.append(("Model", _model()))
    except Exception as error:  # a missing module and a damaged cache both end here, and both block the labs
        lines.append(("Model", f"not usable: {getattr(error, 'what', error)}"))
        blockers.append("the model is missing: run `python -m lablib fetch`")
    try:
        free: float | None = host_memory.free()
    except Exception:  # psutil missing, or a system it does not know
        free = None
    advice = dict.fromkeys((_try(_dtype_advice), _try(_kernel_advice), *_platform_advice()))
    return Machine(tuple(lines), tuple(advice), tuple(blockers), free)


def report(machine: Machine) -> str:
    """Return `machine` and its verdict for every lab as text, one finding a line."""
    rows = ["This machine"]
    rows += [f"  {name:<13}{text}" for name, text in machine.lines]
    rows += ["", "What that means"]
    rows += [f"  {text}" for text in machine.advice]
    rows += [f"  Lab {lab.number}  {lab.title:<22}{lab.minutes} min   {verdict(lab, machine)}" for lab in LABS]
    return "\n".join(rows)


def verdict(lab: LabNeeds, machine: Machine) -> str:
    """Return "ready", or what stands in the way of `lab` on `machine`."""
    if machine.blockers:
        return "not yet: " + "; ".join(machine.blockers)
    if machine.free_memory_bytes is not None and machine.free_memory_bytes < lab.memory_bytes:
        free, need = machine.free_memory_bytes / _GB, lab.memory_bytes / _GB
        return f"short of memory: needs {need:.1f} GB, {free:.1f} GB are free; shut down other kernels"
    return "ready"


def ready(number: str) -> str:
    """Return whether this machine is ready for lab `number` ("00", "01", …), what it runs on, and how long that takes.

    The machine's speed is measured for it, in about half a second.
    """
    machine = inspect()
    lab = next(lab for lab in LABS if lab.number == number)
    found = dict(machine.lines)
    software = f"Python {platform.python_version()}, torch {found['torch']}"
    return f"Lab {number}: {verdict(lab, machine)} · {software} · {found['CPU']}\n{_try(lambda: _computing(lab))}"


def _computing(lab: LabNeeds) -> str:
    """How long the machine will compute in this lab, and what that is reckoned from."""
    from lablib.pace import CHOICE, in_words, pace

    here = pace()
    step = f"A decode step of 8 rows takes about {1000 * here.step_seconds:.0f} ms here"
    large = in_words(here.seconds(lab.steps))
    if not here.takes_small or lab.small_steps == lab.steps:
        return f"{step}: the model computes for about {large} in all while you work through this lab."
    small = in_words(here.seconds(lab.small_steps))
    return (
        f"{step}: with the smaller workload this lab computes for about {small} in all; "
        f"{CHOICE}=large asks for the larger one, about {large}."
    )


def main() -> int:
    """Print the report; return 0 when every lab is ready, else 1."""
    machine = inspect()
    print(report(machine))
    return 0 if all(verdict(lab, machine) == "ready" for lab in LABS) else 1


def _try(probe: Callable[[], str]) -> str:
    try:
        return probe()
    except Exception as error:  # the doctor must speak on exactly the machines where something is broken
        return f"could not be found out ({type(error).__name__}: {error})"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> str:
    return f"{platform.python_version()}, {platform.system()} {platform.machine()}, {sys.executable}"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        return "none that torch can use; everything runs on the CPU"
    names = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{gpu.name} ({gpu.total_memory / _GB:.0f} GB, sm_{gpu.major}{gpu.minor})" for gpu in names)


def _cpu() -> str:
    from lablib.model.dtype import cpu_features

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    noun = "core" if cores == 1 else "cores"
    return f"{cores} {noun}, {', '.join(cpu_features()) or 'no instruction set that torch has special code for'}"


def _memory() -> str:
    return f"{host_memory.total() / _GB:.1f} GB, {host_memory.free() / _GB:.1f} GB free"


def _disk() -> str:
    from lablib.model.checkpoint import cache_dir

    folder = cache_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{shutil.disk_usage(existing).free / _GB:.0f} GB free for the model cache"


def _model() -> str:
    from lablib.model.checkpoint import DEFAULT, CheckpointError, cache_dir
    from lablib.model.integrity import verify

    path = cache_dir() / DEFAULT.name
    if not path.exists():
        raise CheckpointError(f"nothing in {path}.", "run `python -m lablib fetch`.")
    verify(path, DEFAULT.tensors_sha256)
    return f"{path} (complete, checksum right)"


def _dtype_advice() -> str:
    from lablib.model.dtype import BF16_FEATURES, cpu_features, default_dtype

    name = str(default_dtype()).removeprefix("torch.")
    if BF16_FEATURES.isdisjoint(cpu_features()):
        return f"On the CPU the model computes in {name}: without bf16 instructions bfloat16 would be slower."
    return f"On the CPU the model computes in {name}: it has bf16 instructions, faster than float32."


def _kernel_advice() -> str:
    if sys.platform == "darwin":
        return "Triton does not exist for macOS: kernel cells use their PyTorch twin."
    import torch

    has_gpu = torch.cuda.is_available()
    if _version("triton") is None:
        remedy = (
            "run `make setup`, and attention on the GPU will use them" if has_gpu else "the model does not need them"
        )
        return f"Without Triton there are only the kernels' PyTorch twins: {remedy}."
    if has_gpu:
        return 'On the GPU, with load_model(device="cuda"), attention runs in the Triton kernels.'
    return (
        "No GPU: the model attends in plain PyTorch; the Triton kernels run in Triton's interpreter, and "
        "`python -m labkernels report` compiles them ahead of time."
    )


def _platform_advice() -> tuple[str, ...]:
    return ("Windows itself is not supported: use WSL2.",) if sys.platform == "win32" else ()
