"""What browser tests say to a page and to JupyterLab."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from playwright.sync_api import Page

TOKEN = "for-tests-only"
PATIENCE_MS = 60_000


@dataclass(slots=True)
class Watched:
    """A page, and all that went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def external(self) -> list[str]:
        """Requests that would leave this machine."""
        return [url for url in self.requests if not re.match(r"(file|data|blob|about):|\w+://(localhost|127\.0\.0\.1)[:/]", url)]


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


def run_all(page: Page) -> None:
    """Run all cells of the notebook on screen, and wait until the kernel has done so."""
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").or_(page.locator('[data-status="idle"]')).first.wait_for()
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
