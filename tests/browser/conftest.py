"""A browser, a JupyterLab of our own, and pages that note whatever they complain about or ask the network for."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import PATIENCE_MS, TOKEN, Lab, Watched, watch
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
FOLDERS = (
    "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("needs Debian's chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """``open_page(url, width=1280, **context)``: a fresh page whose errors and requests are noted."""
    contexts = []

    def open_it(url: str, width: int = 1280, **options: Any) -> Watched:
        watched = watch(browser, url, width, **options)
        contexts.append(watched.page.context)
        return watched

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab with settings, kernels and trust of its own."""
    home = tmp_path_factory.mktemp("jupyter")
    root = home / "root"
    root.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {name: str(home / name.lower()) for name in FOLDERS} | {"OMP_NUM_THREADS": "1"}
    settings = home / "jupyterlab_settings_dir" / "@jupyterlab"
    for plugin, text in {
        "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
        "notebook-extension/tracker": '{"windowingMode": "none"}',
    }.items():
        path = settings / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}", "--ServerApp.terminals_enabled=False",
        "--LabApp.news_url=", f"--KernelManager.shutdown_wait_time={PATIENCE_MS / 1e3}",
    ]  # fmt: skip
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, home / "log")
            yield Lab(f"http://127.0.0.1:{port}", root)
        finally:
            server.terminate()
            server.wait(PATIENCE_MS / 1e3)


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
