"""A keyboard interrupt, or two, at any moment: the engine stays usable, the trace whole, and no request is lost."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from runs import CountingExecutor, request

import lablib
from lablib.clock import WallClock
from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.scheduler import ContinuousBatching, Scheduler, StaticBatching
from lablib.trace import Trace

HERE = str(Path(lablib.__file__).parent)


def requests() -> list[Any]:
    return [request(f"r{i}", 2 + i, 1 + i, arrival=0.03 * i) for i in range(4)]


@contextmanager
def signals_at_line(number: int, how_many: int) -> Iterator[list[int]]:
    """Raise that many signals before the ``number``-th line of ``lablib`` that runs inside; counts the lines."""
    lines = [0]

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == number:
                for _ in range(how_many):
                    signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("how_many", [1, 2, 3])
@pytest.mark.parametrize("make", [lambda: StaticBatching(2, 64), lambda: ContinuousBatching(2, 64)])
def test_at_every_line_of_a_run_it_loses_nothing(make: Any, how_many: int) -> None:
    """The handler itself decides, so what is tested is where it lets an interrupt through."""
    with signals_at_line(0, 0) as lines:
        complete = Engine(make(), CountingExecutor()).run(requests())
    interrupted = 0
    for number in range(1 + how_many, lines[0], 7 if how_many == 2 else 23):
        scheduler: Scheduler = make()
        engine, asked = Engine(scheduler, CountingExecutor()), requests()
        try:
            with signals_at_line(number, how_many):
                engine.run(asked)
        except KeyboardInterrupt:
            interrupted += 1
        assert Trace.from_dict(engine.trace.to_dict()).hash == engine.trace.hash, f"the trace, at line {number}"
        engine.run([each for each in asked if not each.submitted])
        assert [each.output_token_ids for each in asked] == complete.requests["output"], f"a token, at line {number}"
        assert scheduler.kv.pool.num_used == 0, f"a block, at line {number}"
    assert interrupted > 10


def test_while_nobody_computes_it_takes_effect_at_once() -> None:
    engine = Engine(ContinuousBatching(2, 64), SimulatedExecutor(), clock=WallClock())
    threading.Timer(0.2, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.run([request("a", 3, 3), request("b", 3, 3, arrival=3600)])
    assert time.monotonic() - begun < 600, "it did not sleep for the hour"
    assert engine.trace.requests["finish_reason"] == ["length"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_outside_the_main_thread_a_run_leaves_signals_alone() -> None:
    results: list[Trace] = []
    thread = threading.Thread(
        target=lambda: results.append(Engine(ContinuousBatching(2, 64), SimulatedExecutor()).run(requests()))
    )
    thread.start()
    thread.join()
    assert results[0].requests["finish_reason"] == ["length"] * 4
