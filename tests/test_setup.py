"""Set-up, checks and packaging do what README says, and explain themselves where they cannot."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def script(name: str) -> ModuleType:
    """Import a file of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/setup.py, working on a virtual environment that does not exist."""
    module = script("setup")
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    return module


def test_every_package_in_the_tree_is_packaged() -> None:
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "lablib").rglob("__init__.py")}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found | {"labkernels"}


@pytest.mark.parametrize("folder", [".", "benchmarks", "scripts"])
def test_no_name_of_ours_hides_a_package_that_the_labs_need(folder: str) -> None:
    """``python`` puts the folder of its script first on the path, and transformers imports a package called kernels."""
    needed = {"torch", "transformers", "kernels", "tokenizers", "safetensors", "numpy", "pandas", "ipywidgets"}
    assert needed.isdisjoint(path.stem for path in (ROOT / folder).iterdir())


def test_without_a_recent_python_the_message_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "cat").symlink_to(shutil.which("cat"))
    for name in ("python3.11", "python3.12", "python3.13", "python3", "python"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    command = ["/bin/sh", str(ROOT / "scripts" / "setup.sh"), "lab"]
    process = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "No Python 3.11, 3.12 or 3.13 was found" in process.stderr
    assert "apt install python3" in process.stderr


def test_a_python_without_venv_names_debians_package(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "works", lambda python, code: False)
    with pytest.raises(setup.SetupError, match=r"sudo apt install python3\.\d+-venv"):
        setup.make_venv()


def test_a_broken_environment_is_made_anew(setup: ModuleType) -> None:
    (setup.VENV / "bin").mkdir(parents=True)
    setup.PYTHON.symlink_to("/usr/bin/python-that-was-removed")
    setup.make_venv()
    assert setup.works(setup.PYTHON, "import pip")


def test_a_small_disk_is_refused_before_the_installation(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 10**9))
    with pytest.raises(setup.SetupError, match=r"1\.0 GB free.*may take 5 GB"):
        setup.check_disk("cpu")


def test_an_installation_is_repeated_only_when_the_requirements_change(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[list[str]] = []
    monkeypatch.setattr(setup, "run_showing", lambda command: runs.append(command))
    monkeypatch.setattr(setup, "torch_index", list)
    setup.install("lab")
    setup.install("lab")
    assert len(runs) == 1
    setup.install("test")
    assert runs[1][-1].endswith("[test]")
    setup.install("lab")
    assert len(runs) == 2
    monkeypatch.setattr(setup, "wanted_state", lambda: "something else")
    setup.install("lab")
    assert len(runs) == 3


def test_a_failed_installation_leaves_no_stamp_and_explains_itself(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "run_showing", lambda command: "Retrying: NewConnectionError: Failed to establish")
    monkeypatch.setattr(setup, "torch_index", list)
    with pytest.raises(setup.SetupError, match=r"(?s)cannot reach the package index.*HTTPS_PROXY"):
        setup.install("lab")
    assert not list(setup.VENV.glob(".installed-*"))
    assert "disk is full" in setup.explain("OSError: [Errno 28] No space left on device")
    assert "pip failed" in setup.explain("ERROR: something else")


def test_cpu_wheels_are_asked_for_only_without_an_nvidia_gpu_and_where_they_can_be_reached(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answer:
        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    def unreachable(url: str = "", timeout: float = 0) -> Answer:
        raise OSError("no route")

    monkeypatch.setattr(setup.sys, "platform", "linux")
    monkeypatch.setattr(setup.Path, "exists", lambda path: False)
    monkeypatch.setattr(setup.shutil, "which", lambda name: None)
    monkeypatch.setattr(setup.urllib.request, "urlopen", lambda url, timeout: Answer())
    assert setup.torch_index() == ["--extra-index-url", setup.CPU_WHEELS]
    monkeypatch.setattr(setup.urllib.request, "urlopen", unreachable)
    assert setup.torch_index() == []
    monkeypatch.setattr(
        setup.urllib.request, "urlopen", lambda url, timeout: Answer() if timeout > 10 else unreachable()
    )
    assert setup.torch_index() == ["--extra-index-url", setup.CPU_WHEELS], "it answers slowly"
    monkeypatch.setattr(setup.urllib.request, "urlopen", lambda url, timeout: Answer())
    monkeypatch.setattr(setup.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert setup.torch_index() == []


def test_a_failing_stage_fails_the_checks_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = script("test")
    monkeypatch.setattr(checks, "BIN", Path("/bin"))
    monkeypatch.setattr(checks, "stages", lambda cores: {"bad": ["false"], "good": ["true"]})
    assert checks.main([]) == 1
    table = [line.split() for line in capsys.readouterr().out.splitlines()[-3:-1]]
    assert [(name, result) for name, _, result in table] == [("bad", "FAILED"), ("good", "ok")]
    assert checks.main(["good"]) == 0
    assert checks.main(["unknown"]) == 2


def test_a_slow_machine_is_emulated_for_what_computes_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = script("test")
    pinned: list[set[int]] = []
    seen: dict[str, tuple[list[str], str | None, int]] = {}

    def note(command: list[str], env: dict[str, str], **rest: object) -> subprocess.CompletedProcess[str]:
        seen[Path(command[-1]).name] = command, env.get("ATEN_CPU_CAPABILITY"), len(pinned)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    monkeypatch.setattr(checks.os, "sched_getaffinity", lambda pid: {2, 3}, raising=False)
    monkeypatch.setattr(checks.os, "sched_setaffinity", lambda pid, cores: pinned.append(cores), raising=False)
    monkeypatch.setattr(checks.subprocess, "run", note)
    assert checks.main(["--slow", "types", "unit"]) == 0
    (_, types, before), (unit, capability, after) = seen["mypy"], seen["not browser and not alone"]
    assert (types, before) == (None, 0)
    assert (capability, after, pinned) == ("avx2", 1, [{2}])
    assert "-n" not in unit
    assert checks.main(["unit"]) == 0
    unit, capability, after = seen["not browser and not alone"]
    assert (capability, after) == (None, 1)
    assert unit[unit.index("-n") + 1] == "2"


def test_every_test_belongs_to_one_stage() -> None:
    stages = script("test").stages(2)
    chosen = [command[command.index("-m") + 1] for name, command in stages.items() if "-m" in command]
    for marks in ({}, {"browser"}, {"alone"}, {"browser", "alone"}):
        names = {name: name in marks for name in ("browser", "alone")}
        assert [eval(expression, {}, names) for expression in chosen].count(True) == 1, marks


def test_browser_tests_are_skipped_without_a_browser_unless_one_is_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = script("test")
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    monkeypatch.delenv("LABLIB_BROWSER", raising=False)
    assert checks.main(["browser"]) == 0
    assert "No Chromium or Chrome found" in capsys.readouterr().out
    monkeypatch.setenv("LABLIB_BROWSER", "required")
    assert checks.main(["browser"]) == 1


FORBIDDEN = [
    ("lablib/step.py", "import lablib.scheduler"),
    ("lablib/request.py", "import lablib.trace"),
    ("lablib/scheduler/__init__.py", "import torch"),
    ("lablib/scheduler/__init__.py", "import lablib.model"),
    ("lablib/kvcache/__init__.py", "import lablib.scheduler"),
    ("lablib/model/__init__.py", "import lablib.executor"),
    ("lablib/executor/__init__.py", "import lablib.scheduler"),
    ("lablib/trace.py", "import lablib.scheduler"),
    ("lablib/trace.py", "import lablib.metrics"),
    ("lablib/metrics/__init__.py", "import lablib.viz"),
    ("lablib/metrics/__init__.py", "import lablib.engine"),
    ("lablib/viz/__init__.py", "import lablib.kvcache"),
    ("lablib/engine.py", "import lablib.scheduler.static"),
    ("lablib/engine.py", "import lablib.model"),
    ("lablib/engine.py", "import lablib.course"),
    ("labkernels/__init__.py", "import lablib"),
]


@pytest.mark.parametrize(("file", "line"), FORBIDDEN)
def test_an_import_against_the_design_breaks_a_contract(file: str, line: str, tmp_path: Path) -> None:
    for name in ("lablib", "labkernels", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    with (tmp_path / file).open("a") as target:
        target.write(f"\n{line}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stdout
    assert "BROKEN" in process.stdout


def test_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


def test_jupyterlabs_news_and_update_requests_are_switched_off(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "run_showing", lambda command: None)
    monkeypatch.setattr(setup, "torch_index", list)
    setup.install("lab")
    installed = json.loads((setup.VENV / "share/jupyter/lab/settings/overrides.json").read_text())
    assert installed["@jupyterlab/apputils-extension:notification"] == {"checkForUpdates": False, "fetchNews": "false"}
