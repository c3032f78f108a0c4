"""Make .venv, install what the labs (or their tests) need, fetch the model. Standard library only; safe to repeat."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
# The finished environment with CPU wheels and Triton takes 2.6 GB, the model 0.3 GB, and installing 2 GB for a while;
# CUDA wheels bring some 5 GB of libraries on top.
DISK_GB = {"cpu": 5, "cuda": 9}


class SetupError(Exception):
    """Set-up cannot go on; the text says why and what to do."""


def main() -> int:
    """Run all steps for a profile, "lab" or "test"; return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="?", choices=["lab", "test"], default="lab")
    profile = parser.parse_args().profile
    try:
        make_venv()
        install(profile)
        fetch_model()
    except SetupError as error:
        print(f"\nSet-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on where this one stopped.", file=sys.stderr)
        return 130
    return 0


def make_venv() -> None:
    """Make the virtual environment, or make it anew when it is broken or belongs to a Python that is gone."""
    if PYTHON.exists() and works(PYTHON, "import pip, sys; assert sys.version_info >= (3, 11)"):
        return
    if not works(Path(sys.executable), "import ensurepip, venv"):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"{sys.executable} cannot make virtual environments (its venv or ensurepip module is missing).\n"
            f"  What to do: on Debian and Ubuntu, sudo apt install python{version}-venv; then again."
        )
    say(f"Making .venv with Python {sys.version.split()[0]} ({sys.executable})")
    check_disk("cpu")
    if subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False).returncode:
        raise SetupError("the virtual environment could not be made; the lines above say why.")


def install(profile: str) -> None:
    """Install the requirements of `profile` unless exactly these are installed already."""
    fingerprint = wanted_state()
    stamps = [VENV / f".installed-{name}" for name in ("lab", "test")]
    # The test tools come on top of what the labs need, so their stamp serves both.
    if any(s.exists() and s.read_text() == fingerprint for s in (stamps if profile == "lab" else stamps[1:])):
        return
    extra = torch_index()
    check_disk("cpu" if extra or sys.platform == "darwin" else "cuda")
    target = str(ROOT) if profile == "lab" else f"{ROOT}[test]"
    say("Installing the requirements (a few hundred MB on a first run, some minutes)")
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *extra, "--editable", target]
    errors = run_showing(command)
    if errors is not None:
        raise SetupError(explain(errors))
    settings = VENV / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "binder" / "overrides.json", settings / "overrides.json")
    (VENV / f".installed-{profile}").write_text(fingerprint)


def wanted_state() -> str:
    """Return a fingerprint of everything that decides what is installed, this folder's place included."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in ("requirements.txt", "pyproject.toml", "binder/overrides.json", "scripts/setup.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def torch_index() -> list[str]:
    """Return pip options for PyTorch's CPU wheels: none where there is an NVIDIA GPU, or the index is out of reach."""
    if sys.platform != "linux" or shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists():
        return []
    for patience in (5, 15, 30):
        try:
            with urllib.request.urlopen(f"{CPU_WHEELS}/torch/", timeout=patience):
                say("No NVIDIA GPU: taking PyTorch's smaller CPU wheels")
                return ["--extra-index-url", CPU_WHEELS]
        except (OSError, urllib.error.URLError):
            continue
    say(f"{CPU_WHEELS} is out of reach: taking PyTorch from where pip finds it")
    return []


def check_disk(kind: str) -> None:
    """Raise `SetupError` when the disk has less room than the installation of `kind` may take."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < DISK_GB[kind]:
        raise SetupError(
            f"{ROOT} has {free:.1f} GB free; PyTorch, JupyterLab and the model may take {DISK_GB[kind]} GB.\n"
            "  What to do: free some, or move this folder to a larger disk."
        )


def run_showing(command: list[str]) -> str | None:
    """Run `command` with its output visible; return None on success, else what it wrote to stderr."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(line)
        lines.append(line)
    return None if process.wait() == 0 else "".join(lines)


def explain(errors: str) -> str:
    """Return what a failed pip run means, by what it wrote."""
    if "No space left" in errors:
        return "the disk is full.\n  What to do: free some space, then run the same command again."
    network = ("Failed to establish", "ConnectionError", "NameResolutionError", "timed out", "ProxyError", "SSLError")
    if any(sign in errors for sign in network):
        return (
            "pip cannot reach the package index.\n"
            "  What to do: check the network; behind a proxy set HTTPS_PROXY, with a mirror PIP_INDEX_URL; "
            "then run the same command again."
        )
    return "pip failed; its message stands above.\n  What to do: correct what it names, then run this again."


def fetch_model() -> None:
    """Let the library fetch, or verify, the model; it shows progress and explains its own failures."""
    if subprocess.run([str(PYTHON), "-m", "lablib", "fetch"], cwd=ROOT, check=False).returncode:
        raise SetupError("the model could not be fetched; the lines above say why.")


def works(python: Path, code: str) -> bool:
    """Return whether `python` runs `code` without an error."""
    return subprocess.run([str(python), "-c", code], capture_output=True, check=False).returncode == 0


def say(text: str) -> None:
    """Print a line of progress with the time of day."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
