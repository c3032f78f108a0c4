"""Kernels compiled ahead of time for GPUs that are not here, and what the report says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from labkernels.__main__ import main
from labkernels.ahead_of_time import load_sizes, resident_programs
from labkernels.report import compile_all, table

HALF = ("bf16", "fp16")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    pytest.importorskip("triton", reason="compiling needs Triton")
    return compile_all([80, 90])


def test_every_kernel_is_compiled_for_both_generations_both_models_and_all_dtypes(
    rows: list[dict[str, object]],
) -> None:
    found = {(row["kernel"], row["model"], row["dtype"], row["capability"]) for row in rows}
    kernels = ("cache_write", "paged_decode", "merge_splits", "paged_prefill")
    assert found == {
        (kernel, model, dtype, capability)
        for kernel in kernels
        for model in ("SmolLM2-135M", "Llama-3-8B")
        for dtype in (*HALF, "fp32")
        for capability in (80, 90)
    }


def test_no_kernel_in_half_precision_spills(rows: list[dict[str, object]]) -> None:
    assert [row for row in rows if row["dtype"] in HALF and row["spilled"]] == []


def test_what_is_loaded_element_by_element_on_paper_is_loaded_16_bytes_at_a_time(rows: list[dict[str, object]]) -> None:
    for row in rows:
        assert row["wide_loads"] > 0, row
        assert row["narrowest"] >= 4, row  # a scalar load of K or V in half precision would be one of 2 bytes


def test_every_program_finds_room_on_a_multiprocessor(rows: list[dict[str, object]]) -> None:
    assert min(row["resident"] for row in rows) >= 1


def test_the_table_names_each_gpu_once_and_ends_with_the_verdict(rows: list[dict[str, object]]) -> None:
    text = table([row | {"spilled": 0} for row in rows])
    assert text.count("sm_80: A100") == text.count("sm_90: H100, H200") == 1
    assert text.endswith(f"No kernel spills: {len(rows)} variants compiled.")
    text = table([row | {"spilled": 8 * (row["kernel"] == "paged_decode")} for row in rows])
    assert "Registers are spilled by paged_decode (bf16, sm_80), " in text


def test_the_report_exits_with_1_when_half_precision_spills_and_prints_json(
    rows: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("labkernels.report.compile_all", lambda capabilities: rows)
    assert main(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    for row, spilling in ((rows[0], 1), (next(row for row in rows if row["dtype"] == "fp32"), 0)):
        monkeypatch.setattr("labkernels.report.compile_all", lambda _, row=row: [row | {"spilled": 8}])
        assert main(["report"]) == spilling


def test_loads_are_counted_by_their_bytes_a_thread() -> None:
    ptx = """
        ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
        @%p1 ld.global.L1::evict_last.b16 { %rs1 }, [ %rd2 + 0 ];
        ld.global.v2.b64 { %rd3, %rd4 }, [ %rd5 + 0 ];
        cp.async.cg.shared.global [ %r5 + 0 ], [ %rd6 + 0 ], 0x10, %r6;
        cp.async.ca.shared.global [ %r5 + 0 ], [ %rd6 + 0 ], 0x4, %r6;
        ld.shared.v4.b32 { %r7, %r8, %r9, %r10 }, [ %r11 ];
        st.global.b16 [ %rd1 + 0 ], { %rs1 };
    """
    assert load_sizes(ptx) == {16: 3, 2: 1, 4: 1}


def test_room_on_a_multiprocessor_is_limited_by_threads_registers_or_memory() -> None:
    assert resident_programs(90, threads=128, registers=32, shared=0) == 16  # 2,048 threads
    assert resident_programs(90, threads=128, registers=128, shared=0) == 4  # 65,536 registers
    assert resident_programs(90, threads=128, registers=32, shared=100_000) == 2  # 228 KB
    assert resident_programs(90, threads=32, registers=16, shared=0) == 32


def test_kernels_run_in_a_session_that_has_used_a_tokenizer_before() -> None:
    code = """
import lablib, sys, torch
import triton  # as transformers does
import labkernels
k, cache = torch.ones(2, 1, 64), torch.zeros(4, 2, 1, 64)
labkernels.cache_write(k, k, cache[:, 0], cache[:, 1], torch.tensor([3, 0]))
q, table, lens = torch.ones(1, 1, 64), torch.tensor([[1, 0]]), torch.tensor([4])
assert labkernels.paged_decode(q, cache[:, 0], cache[:, 1], table, lens, 2).isfinite().all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to compile for")
def test_triton_that_was_imported_too_early_is_named_at_the_launch() -> None:
    code = """
import triton, torch, labkernels
k, cache = torch.ones(2, 1, 64), torch.zeros(4, 2, 1, 64)
try:
    labkernels.cache_write(k, k, cache[:, 0], cache[:, 1], torch.tensor([3, 0]))
except RuntimeError as error:
    assert "imported before labkernels" in str(error) and "TRITON_INTERPRET=1" in str(error), error
else:
    sys.exit("no error")
"""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_without_triton_the_twins_work_and_a_launch_says_what_is_missing() -> None:
    code = """
import sys
sys.modules["triton"] = None
import torch, labkernels
k, cache, slots = torch.ones(2, 1, 64), torch.zeros(4, 2, 1, 64), torch.tensor([3, 0])
labkernels.cache_write_torch(k, k, cache[:, 0], cache[:, 1], slots)
assert cache.sum() == 256
try:
    labkernels.cache_write(k, k, cache[:, 0], cache[:, 1], slots)
except RuntimeError as error:
    assert "Triton is not installed" in str(error) and "_torch" in str(error), error
else:
    sys.exit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
