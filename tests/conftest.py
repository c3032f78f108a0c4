"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from course_cells import Notebook

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Notebook]:
    """A fresh session of a learner whose answers are kept in ``tmp_path / "mine"``, with the example lab."""
    # imported here, so that tests of kernels and model run where Jupyter is not installed
    import course_example
    from course_cells import Notebook

    from lablib.course import pieces, registry, store

    monkeypatch.setenv("LABLIB_MINE", str(tmp_path / "mine"))
    monkeypatch.setenv("LABLIB_EXERCISES", "fallback")
    monkeypatch.delenv("LABLIB_PREDICT", raising=False)
    registry.register(course_example.LAB)
    pieces.forget_attempts()
    yield Notebook()
    pieces.forget_attempts()
    registry.unregister(90)
    store.forget_session()
