"""JupyterLab opens on the first lab, in silence: no pop-up, no request that leaves this machine."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from browsing import PATIENCE_MS, Watched, settle

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def jupyterlab(tmp_path: Path) -> Iterator[str]:
    """The address at which the Makefile's own command serves one notebook to a user without settings."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("The first lab")])
    (tmp_path / "work").mkdir()
    nbformat.write(notebook, tmp_path / "work" / "00_first.ipynb")
    recipe = re.search(r"^\t@exec \.venv/bin/(jupyter lab .*)$", (ROOT / "Makefile").read_text(), re.M).group(1)
    port = free_port()
    options = f"--no-browser --allow-root --port {port} --IdentityProvider.token=''"
    command = recipe.replace("$(CURDIR)", str(tmp_path)).replace("$(JUPYTER_ARGS)", options).replace("$$", "$")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG"))}
    environment |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    log = (tmp_path / "jupyter.log").open("w")
    server = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=tmp_path, env=environment, stderr=log)
    address = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while time.monotonic() < deadline and server.poll() is None:
        try:
            opener.open(f"{address}/api", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    yield address
    server.terminate()
    server.wait()
    log.close()


def test_jupyterlab_opens_on_the_first_lab_without_pop_up_or_outside_request(
    jupyterlab: str, open_page: Callable[..., Watched]
) -> None:
    watched = open_page(f"{jupyterlab}/")
    page = watched.page
    page.get_by_role("paragraph").get_by_text("The first lab").wait_for()
    settle(page, 3_000)  # the news question comes after the page has settled
    assert page.url.endswith("/work/00_first.ipynb")
    assert page.locator(".Toastify__toast").all_inner_texts() == []
    assert watched.external == []
