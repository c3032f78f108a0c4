"""A trace is small, exact, and refuses to be read when it is damaged."""

from __future__ import annotations

import copy
import gzip
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import CountingExecutor, mixed_requests, request

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.kvcache import KVCacheManager
from lablib.perfetto import export_chrome_trace
from lablib.recorder import TraceRecorder, text_pieces
from lablib.request import FinishReason, Request, RequestOutput, SamplingParams
from lablib.scheduler import ContinuousBatching, StaticBatching
from lablib.scheduler.policies import ReservePrompt
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import Trace, TraceError
from lablib.workload import AllAtOnce, Uniform, synthetic


def small_trace() -> Trace:
    return Engine(StaticBatching(3, 128), SimulatedExecutor(), workload="test").run(mixed_requests(7))


def busy_trace(num_steps: int, num_slots: int, num_blocks: int, block_size: int = 16) -> Trace:
    """Slots that never rest, block tables that grow: the trace of a large engine at full load."""
    rng = random.Random(0)
    kv = KVCacheManager(num_blocks, block_size)
    meta = {"max_num_seqs": num_slots, "num_blocks": num_blocks, "block_size": block_size}
    recorder = TraceRecorder(meta)
    rows: dict[int, tuple[Request, int]] = {}
    outputs: list[RequestOutput] = []
    for step in range(num_steps):
        admitted, chunks = [], []
        for slot in range(num_slots):
            if slot not in rows:
                prompt = [0] * rng.randint(16, 512)
                sampling = SamplingParams(max_tokens=rng.randint(8, 256))
                new = Request(f"r{recorder.trace.num_requests}", prompt, sampling, arrival_time=step * 0.01)
                recorder.add_request(new)
                rows[slot], admitted = (new, 0), [*admitted, new.request_id]
            each, computed = rows[slot]
            count = len(each.prompt_token_ids) if computed == 0 else 1
            table = kv.grow(each.request_id, computed + count)
            chunks.append(Chunk(each.request_id, slot, computed, (0,) * count, 0, table, each.sampling, 0, True))
        recorder.record_blocks(kv.take_changes())
        plan = StepPlan(tuple(chunks), admitted=tuple(admitted))
        recorder.record_step(plan, StepResult(((0,),) * num_slots, 0.01), step * 0.01, (step + 1) * 0.01)
        for chunk in chunks:
            each, _ = rows[chunk.slot]
            rows[chunk.slot] = (each, chunk.end)
            done = chunk.end - each.num_prompt_tokens + 1 >= each.max_tokens
            outputs.append(RequestOutput(each.request_id, (0,), FinishReason.LENGTH if done else None))
            if done:
                del rows[chunk.slot]
                kv.free(each.request_id)
        recorder.record_outputs(outputs)
        outputs.clear()
    return recorder.trace


def test_a_large_run_stays_under_100_kilobytes(tmp_path: Path) -> None:
    trace = busy_trace(num_steps=2000, num_slots=64, num_blocks=4096)
    assert trace.num_steps == 2000
    assert len(trace.chunks()["step"]) == 2000 * 64
    path = trace.save(tmp_path / "large.json.gz")
    assert path.stat().st_size <= 100_000
    assert Trace.load(path).to_json() == trace.to_json()


def test_a_large_run_whose_blocks_change_hands_all_the_time_does_too() -> None:
    """2,000 steps of 64 slots and 4,096 blocks of 16 tokens under the real scheduler, the pool handed out ten times."""
    workload = synthetic("busy", 1300, AllAtOnce(), Uniform(100, 700), Uniform(20, 180))
    scheduler = ContinuousBatching(64, 4096, block_size=16, num_blocks=4096, admission=ReservePrompt(watermark=0.02))
    engine = Engine(scheduler, SimulatedExecutor())
    for each in workload:
        engine.add_request(each)
    while engine.trace.num_steps < 2000:
        engine.step()
    assert len(engine.trace.block_ids) > 40_000
    assert len(engine.trace.compressed()) < 100_000


def test_a_reason_to_wait_is_stored_once_and_every_wait_names_its_own() -> None:
    recorder = TraceRecorder({})
    recorder.add_request(request("a", 1, 1))
    told = ["slots", "blocks: needs 2, free 1", "slots", "token budget", "blocks: needs 2, free 1"]
    for reason in told:
        recorder.record_plan(StepPlan(waits={"a": reason}))
    reasons = recorder.trace.reasons
    assert sorted(reasons) == sorted(set(told))
    assert [reasons[index] for index in recorder.trace.tables["waits"]["reason"]] == told


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 99)), max_size=12),
    batch_size=st.integers(1, 5),
    stream=st.booleans(),
)
def test_what_is_loaded_is_what_was_saved(
    shapes: list[tuple[int, int, int]], batch_size: int, stream: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    requests = [request(f"r{i}", p, o, arrival=a / 100) for i, (p, o, a) in enumerate(shapes)]
    trace = Engine(StaticBatching(batch_size, 64, stream), CountingExecutor()).run(requests)
    loaded = Trace.load(trace.save(tmp_path_factory.mktemp("trace") / "run.json.gz"))
    assert loaded.hash == trace.hash
    assert {name: column.tolist() for name, column in loaded.chunks().items()} == {
        name: column.tolist() for name, column in trace.chunks().items()
    }


def test_a_file_does_not_tell_when_it_was_written() -> None:
    assert small_trace().compressed()[4:8] == bytes(4), "gzip keeps a time there, and equal runs would differ"


def test_the_chunks_of_a_trace_are_those_of_the_plans() -> None:
    executor = CountingExecutor()
    trace = Engine(StaticBatching(3, 128), executor).run(mixed_requests(8))
    ids = trace.requests["id"]
    seen = list(zip(*(column.tolist() for column in trace.chunks().values()), strict=True))
    assert seen == [
        (ids.index(c.request_id), c.slot, step, c.start, len(c.token_ids), c.num_padding, int(c.sample))
        for step, plan in enumerate(executor.plans)
        for c in plan.chunks
    ]


@pytest.mark.parametrize("scheduler", ["static", "paged"])
def test_block_changes_rebuild_the_tables_of_every_step(scheduler: str, tmp_path: Path) -> None:
    executor = CountingExecutor()
    paged = ContinuousBatching(3, 128, block_size=4, admission=ReservePrompt())
    trace = Engine(StaticBatching(3, 128) if scheduler == "static" else paged, executor).run(mixed_requests(8))
    trace = Trace.load(trace.save(tmp_path / "run.json.gz"))
    tables: dict[str, tuple[int, ...]] = {}
    columns = zip(*trace.tables["blocks"].values(), strict=True)
    changes, ids = list(columns), list(trace.block_ids)
    for step, plan in enumerate(executor.plans):
        while changes and changes[0][0] <= step:
            _, row, freed, count = changes.pop(0)
            name = trace.requests["id"][row]
            table = tables.get(name, ())
            if freed:
                tables[name] = table[: len(table) - count]
            else:
                tables[name], ids = table + tuple(ids[:count]), ids[count:]
        assert {c.request_id: c.block_ids for c in plan.chunks} == {n: t for n, t in tables.items() if t}
    assert [change[2] for change in changes] == [1] * len(changes), "only frees are left behind the last step"
    assert not ids


def _set(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        data = data[name]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (
            "format",
            1,
            "format 1, this version reads format 2; record the run again, or open the trace with the version",
        ),
        ("format", 99, "format 99, this version reads format 2"),
        ("meta", None, "`meta` is missing"),
        ("runs", {}, "`runs` is missing, or its columns are not request, slot"),
        ("runs.slot", [0], "columns of `runs` differ in length"),
        ("steps.duration_us", ["1"], "`steps.duration_us` holds something other than int"),
        ("block_ids", [0], "`blocks` allocates 7 blocks, `block_ids` names 1"),
        ("blocks.kind", [1] * 14, "`blocks` frees 1 blocks of r0 at step 0, which holds 0"),
        ("reasons", [], "`waits.reason` holds 0, which names nothing"),
    ],
)
def test_an_inconsistent_trace_is_refused_with_the_reason(path: str, value: Any, reason: str) -> None:
    data = copy.deepcopy(small_trace().to_dict())
    _set(data, path, value)
    with pytest.raises(TraceError, match=reason):
        Trace.from_dict(data)


@pytest.mark.parametrize(
    ("column", "change", "reason"),
    [
        ("runs.request", 1000, "`runs.request` holds 1000"),
        ("runs.step", 10**9, "`runs.step` holds"),
        ("runs.count", 10**6, "`runs` reaches past the last of"),
        ("events.kind", 17, "`events.kind` holds 17"),
        ("steps.duration_us", -5, "`steps.duration_us` holds -5"),
        ("blocks.step", 10**9, "`blocks.step` holds"),
        ("blocks.step", 20, "`blocks.step` goes back in time"),
        ("blocks.kind", 2, "`blocks.kind` holds 2"),
        ("blocks.count", -1, "`blocks.count` holds -1"),
    ],
)
def test_a_number_that_names_nothing_is_refused(column: str, change: int, reason: str) -> None:
    data = copy.deepcopy(small_trace().to_dict())
    table, name = column.split(".")
    data[table][name][0] = change
    with pytest.raises(TraceError, match=reason):
        Trace.from_dict(data)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "not gzip", "not json", "not a trace"])
def test_a_damaged_file_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    good = small_trace().compressed()
    middle = len(good) // 2
    bad = {
        "cut": good[:middle],
        "flipped": good[:middle] + bytes([good[middle] ^ 0xFF]) + good[middle + 1 :],
        "empty": b"",
        "not gzip": b"hello",
        "not json": gzip.compress(b"{"),
        "not a trace": gzip.compress(b"[1, 2]"),
    }[damage]
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(bad)
    with pytest.raises(TraceError, match=r"damaged\.json\.gz"):
        Trace.load(path)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "nowhere.json.gz")


def test_text_inside_a_character_waits_for_the_token_that_completes_it() -> None:
    octets = list("aé🙂".encode())
    pieces = text_pieces(lambda ids: bytes(ids).decode("utf-8", errors="replace"), octets)
    assert pieces == ["a", "", "é", "", "", "", "🙂"]


def test_the_perfetto_export_has_every_step_and_every_chunk(tmp_path: Path) -> None:
    trace = small_trace()
    events = json.loads(export_chrome_trace(trace, tmp_path / "run.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == trace.num_steps + len(trace.chunks()["step"])
    steps = [event for event in spans if event["tid"] == 0]
    assert all(later["ts"] == earlier["ts"] + earlier["dur"] for earlier, later in pairwise(steps))
    kinds = {event["name"].split()[-1] for event in spans if event["tid"] > 0}
    assert kinds == {"prefill", "decode", "straggler"}
    computed = sum(event["args"]["tokens"] + event["args"]["padding"] for event in events if event["ph"] == "C")
    assert computed == int(np.sum(trace.chunks()["tokens"] + trace.chunks()["padding"]))
