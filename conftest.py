"""How the notebooks in ``labs/`` are compared with what they print when run anew (``pytest --nbval labs``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lablib  # noqa: F401 - before any test imports torch: it says how torch's threads wait for each other

# Processes that test side by side (``pytest -n 2``) share the cores: theirs, and their children's, would wait for each
# other's threads. Also to be set before torch is imported.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("OMP_NUM_THREADS", str(share))

# Set before any kernel starts: untouched exercises run the reference, results don't wait for a guess, and progress
# bars, which write to stderr, stay silent.
os.environ.setdefault("LABLIB_EXERCISES", "fallback")
os.environ.setdefault("LABLIB_PREDICT", "skip")
os.environ.setdefault("TQDM_DISABLE", "1")

_SANITIZE = Path(__file__).parent / "tests" / "notebooks_sanitize.cfg"
# HTML holds pictures and styles, whose bytes change with a font; stderr holds libraries' warnings.
_NOT_COMPARED = ("text/html", "stderr")


def pytest_configure(config: pytest.Config) -> None:
    """Name the sanitise file by its absolute path: nbval looks for it from the working directory."""
    if hasattr(config.option, "nbval_sanitize_with") and not config.option.nbval_sanitize_with:
        config.option.nbval_sanitize_with = str(_SANITIZE)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Leave some kinds of output out of the comparison."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += _NOT_COMPARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest; skip tests and cells that need a GPU where there is none."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    wanting = [item for item in items if "gpu" in _tags(item) or item.get_closest_marker("gpu")]
    if wanting and not _has_gpu():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


def _tags(item: pytest.Item) -> list[str]:
    cell = getattr(item, "cell", None)
    return list(cell.metadata.get("tags", [])) if cell is not None else []


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
