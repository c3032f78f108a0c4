"""A run on the real model can be watched while it lasts, and leaves nothing where nobody watches."""

from __future__ import annotations

from functools import partial

import pytest
from runs import mixed_requests
from tqdm import tqdm

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor, progress
from lablib.executor.progress import ShowProgress
from lablib.scheduler import StaticBatching


def test_the_bar_counts_every_token_and_goes_when_the_last_has_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "tqdm", partial(tqdm, disable=False, mininterval=0))
    num_tokens = sum(request.max_tokens for request in mixed_requests(6))
    watched = Engine(StaticBatching(4, 128), ShowProgress(SimulatedExecutor(), num_tokens, "six requests"))
    plain = Engine(StaticBatching(4, 128), SimulatedExecutor())
    assert watched.run(mixed_requests(6)).hash == plain.run(mixed_requests(6)).hash
    lines = capsys.readouterr().err.split("\r")
    assert any("six requests" in line and f"/{num_tokens}" in line for line in lines)
    assert not lines[-1].strip(), "the bar is gone"


def test_nothing_is_written_where_bars_are_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    executor = ShowProgress(SimulatedExecutor(), 10_000, "six requests")  # conftest.py sets TQDM_DISABLE
    Engine(StaticBatching(4, 128), executor).run(mixed_requests(6))
    assert capsys.readouterr() == ("", "")
