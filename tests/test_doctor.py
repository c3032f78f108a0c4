"""The doctor tells the truth about a machine, above all a broken one."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lablib import doctor, host_memory
from lablib.doctor import LABS, Machine, verdict
from lablib.host_memory import Container

ROOT = Path(__file__).parents[1]
NAMES = ["Python", "torch", "transformers", "jupyterlab", "Triton", "GPU", "CPU", "Memory", "Disk", "Model"]


def machine(blockers: tuple[str, ...] = (), free: float | None = 8e9) -> Machine:
    return Machine(lines=(), advice=(), blockers=blockers, free_memory_bytes=free)


@pytest.mark.model
def test_the_doctor_names_everything_it_looked_at_and_a_verdict_for_every_lab() -> None:
    text = doctor.report(doctor.inspect())
    assert [name for name in NAMES if not re.search(rf"^  {name} +\S", text, re.M)] == []
    assert [lab.number for lab in LABS if f"Lab {lab.number}" not in text] == []
    assert "checksum right" in text


def test_the_doctor_speaks_where_no_package_is_installed() -> None:
    # -S leaves out site-packages: nothing but the standard library can be imported.
    command = [sys.executable, "-S", "-m", "lablib", "doctor"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in process.stderr
    assert process.returncode == 1
    assert re.search(r"torch +not installed", process.stdout)
    assert len(re.findall(r"Lab \d\d .* not yet: torch is missing: run `make setup`", process.stdout)) == len(LABS)


def test_a_missing_model_is_a_blocker_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABLIB_CACHE", str(tmp_path))
    found = doctor.inspect()
    assert any("python -m lablib fetch" in blocker for blocker in found.blockers)
    assert doctor.main() == 1


def test_a_damaged_model_is_a_blocker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lablib.model.checkpoint import DEFAULT

    (tmp_path / DEFAULT.name).mkdir()
    monkeypatch.setenv("LABLIB_CACHE", str(tmp_path))
    assert "is damaged" in dict(doctor.inspect().lines)["Model"]


def test_a_probe_that_fails_becomes_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise RuntimeError("driver too old")

    monkeypatch.setattr(doctor, "_gpu", broken)
    assert "driver too old" in dict(doctor.inspect().lines)["GPU"]


def test_a_missing_package_is_a_blocker(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert {"torch is missing: run `make setup`"} <= set(doctor.inspect().blockers)


def test_a_lab_that_needs_more_memory_than_is_free_says_how_much() -> None:
    assert verdict(LABS[0], machine()) == "ready"
    assert verdict(LABS[0], machine(free=None)) == "ready"
    assert verdict(LABS[0], machine(free=1e9)).startswith("short of memory: needs 1.5 GB, 1.0 GB are free")
    assert verdict(LABS[0], machine(blockers=("no torch",))) == "not yet: no torch"


def test_a_containers_memory_limit_counts_rather_than_the_hosts_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, usage, stat = (tmp_path / name for name in ("memory.max", "memory.current", "memory.stat"))
    absent = Container(tmp_path / "absent", usage, stat, "inactive_file")
    monkeypatch.setattr(host_memory, "CONTAINERS", (absent, Container(limit, usage, stat, "inactive_file")))
    limit.write_text("1000000000\n")
    assert doctor._memory() == "1.0 GB, 1.0 GB free", "where nothing says what is used"
    usage.write_text("900000000\n")
    stat.write_text("anon 400000000\ninactive_file 300000000\n")
    assert doctor._memory() == "1.0 GB, 0.4 GB free", "files that were only read can be dropped"
    usage.write_text("2000000000\n")
    assert doctor._memory() == "1.0 GB, 0.0 GB free"
    limit.write_text("max\n")
    assert not doctor._memory().startswith("1.0 GB")


@pytest.mark.parametrize(
    ("gpu", "triton", "platform", "words"),
    [
        (False, True, "linux", ("plain PyTorch", "interpreter", "ahead of time")),
        (False, False, "linux", ("Without Triton", "does not need them")),
        (True, True, "linux", ("On the GPU", "runs in the Triton kernels")),
        (True, False, "linux", ("Without Triton", "make setup")),
        (False, False, "darwin", ("macOS", "PyTorch twin")),
    ],
)
def test_one_line_says_where_the_kernels_run(
    gpu: bool, triton: bool, platform: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    installed = doctor._version
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(doctor, "_version", lambda name: installed(name) if name != "triton" or triton else None)
    monkeypatch.setattr(sys, "platform", platform)
    lines = [line for line in doctor.inspect().advice if "kernels" in line or "kernel cells" in line]
    assert len(lines) == 1
    assert [word for word in words if word not in lines[0]] == []


def test_the_readme_lists_the_same_labs_with_the_same_time_and_memory() -> None:
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| \[(\d\d) · (.+?)\]\(labs/.+?\) \| (\d+) min \| ([\d.]+) GB", readme, re.M)
    assert rows == [(lab.number, lab.title, str(lab.minutes), f"{lab.memory_bytes / 1e9:.1f}") for lab in LABS]
