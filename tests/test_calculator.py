"""``python -m lablib memory``: the table says what the JSON says, and what would fit where something doesn't."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lablib.__main__ import main

ROOT = Path(__file__).parents[1]
ALIKE = ["memory", "--mean-tokens", "300"]


def text(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main([*ALIKE, *flags]) == 0
    return capsys.readouterr().out


def numbers(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    values = json.loads(text(capsys, *flags, "--json"))
    assert isinstance(values, dict)
    return values


@pytest.mark.parametrize("flags", [(), ("--model", "smollm2-135m", "--device", "t4", "--dtype", "float32")])
def test_the_table_says_what_the_json_says(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    table, values = text(capsys, *flags), numbers(capsys, *flags)
    factor = {"GB": 1e9, "MB": 1e6}
    rows = re.findall(r"^([a-zA-Z ]+?) +([\d,.]+) (GB|MB) +([\d.]+)%  ([#.]*) +(\S.*)$", table, re.M)
    assert [row[0] for row in rows] == list(values["parts"])
    for name, amount, unit, share, bar, note in rows:
        num_bytes = values["parts"][name]["bytes"]
        assert float(amount.replace(",", "")) * factor[unit] == pytest.approx(num_bytes, abs=0.006 * factor[unit])
        assert float(share) == pytest.approx(100 * num_bytes / values["memory"], abs=0.06)
        assert len(bar) == pytest.approx(30 * num_bytes / values["memory"], abs=1)
        assert note == values["parts"][name]["note"]
    counts = [int(count.replace(",", "")) for count in re.findall(r"^ +([\d,]+)  (?:tokens|requests)", table, re.M)]
    assert counts == [values[name] for name in ("num_tokens", "requests_reserved", "requests_on_demand")]
    assert sum(part["bytes"] for part in values["parts"].values()) == values["memory"]
    *factors, product = map(int, re.findall(r"\d+", table.splitlines()[9].replace(",", "")))
    assert product == values["bytes_per_token"]
    assert factors[0] * factors[1] * factors[2] * factors[3] * factors[4] == product


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        (["--model", "qwen2.5-0.5b"], "num_tokens"),
        (["--device", "a100", "--model", "smollm2-135m"], "num_tokens"),
        (["--memory-gb", "24"], "num_tokens"),
        (["--dtype", "float32"], "num_tokens"),
        (["--gpu-memory-utilization", "0.8"], "num_tokens"),
        (["--max-num-batched-tokens", "2048"], "num_tokens"),
        (["--max-num-seqs", "64"], "num_tokens"),
        (["--block-size", "32"], "num_blocks"),
        (["--max-model-len", "8192"], "requests_reserved"),
        (["--mean-tokens", "500"], "requests_on_demand"),
    ],
)
def test_every_knob_changes_the_plan(flags: list[str], changes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(capsys, *flags)[changes] != numbers(capsys)[changes]


def test_a_model_that_does_not_fit_says_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "--model", "llama-3-70b", "--device", "h100"]) == 1
    error = capsys.readouterr().err
    assert "the weights alone need 141.11 GB, the engine may use 72.00 GB of 80.00 GB" in error
    assert "Models that fit on h100: smollm2-135m, qwen2.5-0.5b, llama-3-8b." in error
    assert "Devices that hold llama-3-70b: none of the list." in error
    assert "at least 2 such devices" in error
    assert "less than 8.2 bits" in error


def test_the_devices_advised_do_hold_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "--device", "t4"]) == 1
    advised = re.search(r"hold llama-3-8b: (.*)\.", capsys.readouterr().err)
    assert advised is not None
    for device in ("t4", "a100", "h100", "h200"):
        holds = main(["memory", "--device", device]) == 0
        assert holds == (device in advised[1].split(", "))


def test_more_requests_than_slots_are_said_not_to_run_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert "lets 256 run at once" in text(capsys)
    assert "run at once" not in text(capsys, "--max-num-seqs", "2000")


def test_a_request_longer_than_the_pool_is_said_not_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    values = numbers(capsys, "--max-model-len", "999999")
    assert f"--max-model-len {values['num_tokens']} would" in text(capsys, "--max-model-len", "999999")
    assert numbers(capsys, "--max-model-len", str(values["num_tokens"]))["requests_reserved"] == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gpu-memory-utilization", "0"], "above 0 and at most 1, got 0"),
        (["--gpu-memory-utilization", "1.5"], "above 0 and at most 1, got 1.5"),
        (["--max-num-batched-tokens", "8"], "max_num_batched_tokens=8 is less than max_num_seqs=256"),
        (["--block-size", "0"], "block_size must be at least 1"),
        (["--max-model-len", "0"], "max_model_len must be at least 1"),
        (["--mean-tokens", "0"], "mean_tokens must be at least 1"),
        (["--mean-tokens", "5000"], "more than --max-model-len 2048"),
        (["--memory-gb", "0"], "--memory-gb must be a number above 0"),
        (["--device", "cpu-2core"], "give --memory-gb instead of --device"),
        (["--device", "cpu", "--model", "llama-3-8b"], "leave --model out"),
    ],
)
def test_flags_that_can_not_work_are_refused_with_a_remedy(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ALIKE, *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.model
def test_this_machine_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    values = numbers(capsys, "--device", "cpu", "--dtype", "bf16")
    assert values["bytes_per_token"] == 23_040
    assert "counted" in values["parts"]["weights"]["note"]
    assert values["parts"]["KV cache"]["bytes"] <= 256e6
    assert sum(part["bytes"] for part in values["parts"].values()) == values["memory"]


def test_a_plan_on_paper_needs_no_torch() -> None:
    code = "import sys; from lablib.__main__ import main; main(['memory']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr
