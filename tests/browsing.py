"""What browser tests say to a page and to JupyterLab."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Page

TOKEN = "for-tests-only"
PATIENCE_MS = 240_000  # a guard against hanging, for the slowest machine; no promise
OURS = re.compile(r"(file|data|blob|about):|\w+://127\.0\.0\.1[:/]")


@dataclass(slots=True)
class Watched:
    """A page, and all that went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def external(self) -> list[str]:
        """Requests that would leave this machine."""
        return [url for url in self.requests if not OURS.match(url)]


def watch(browser: Browser, url: str, width: int = 1280, **options: Any) -> Watched:
    """Open a page in a fresh context, and note its errors and requests."""
    page = browser.new_context(viewport={"width": width, "height": 1000}, **options).new_page()
    page.set_default_timeout(PATIENCE_MS)
    watched = Watched(page)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("console", lambda message: watched.errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: watched.requests.append(request.url))
    page.goto(url)
    return watched


@dataclass(slots=True)
class Lab:
    """A JupyterLab server and the folder it shows."""

    url: str
    root: Path

    def write(self, name: str, *cells: str) -> Path:
        """Put a notebook of code cells into the folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / name)
        return self.root / name

    def address(self, name: str) -> str:
        return f"{self.url}/lab/tree/{name}?token={TOKEN}&reset"


def settle(page: Page, milliseconds: int = 0) -> None:
    """Wait until timers of the page that are due by then have run, and until it has drawn: by its own clock."""
    page.evaluate(
        """async (milliseconds) => {
          await new Promise((resolve) => setTimeout(resolve, milliseconds));
          for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
        }""",
        milliseconds,
    )


def wait_for_kernel(page: Page) -> None:
    """Wait until the notebook on screen has a kernel that has nothing to do."""
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(state="attached")
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()


def run_all(page: Page) -> None:
    """Run all cells of the notebook on screen, and wait until the kernel has done so."""
    wait_for_kernel(page)
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
    page.locator(".jp-CodeCell .jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).last.wait_for()
    wait_for_kernel(page)
