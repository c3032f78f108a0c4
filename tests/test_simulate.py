"""``python -m lablib simulate``: every knob does something or is refused with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lablib.__main__ import main
from lablib.trace import Trace
from lablib.workload import load

SMALL = ["simulate", "--workload", "alpaca", "--requests", "40", "--max-model-len", "600"]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")


def numbers(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, float]:
    assert main([*SMALL, "--json", *flags]) == 0
    values = json.loads(capsys.readouterr().out)
    return {**values["metrics"], "hash": values["hash"]}


def test_the_table_says_what_is_assumed_and_that_nothing_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--slo-ttft", "0.5", "--slo-tpot", "0.05"]) == 0
    out = capsys.readouterr().out
    for words in ("model, not measurement", "requests served", "goodput (requests/s)", "TPOT (ms)", "p99", "KV cache"):
        assert words in out
    for words in ("ReserveModelMax", "requests that hold KV blocks", "token state (%)", "internal fragmentation (%)"):
        assert words in out
    lines = [line for line in out.splitlines() if line.startswith(("queue (s)", "TTFT (s)", "E2E (s)"))]
    assert len({len(line) for line in lines}) == 1, "aligned"


def test_the_same_seed_gives_the_same_run_and_another_seed_another(capsys: pytest.CaptureFixture[str]) -> None:
    first = numbers(capsys, "--seed", "3")
    assert first == numbers(capsys, "--seed", "3")
    assert first["hash"] != numbers(capsys, "--seed", "4")["hash"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--scheduler", "static", "--batch-size", "4"],
        ["--scheduler", "dynamic", "--batch-size", "4", "--max-wait", "0.5", "--preferred-batch-sizes", "2,4"],
        ["--scheduler", "continuous", "--max-num-seqs", "4"],
        ["--max-num-seqs", "4", "--block-size", "16", "--num-blocks", "60", "--max-num-batched-tokens", "300"],
        ["--block-size", "16", "--num-blocks", "60", "--reserve", "max-tokens"],
        ["--block-size", "16", "--num-blocks", "60", "--reserve", "prompt", "--watermark", "0.4"],
    ],
)
def test_every_scheduler_serves_everybody(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    served = numbers(capsys, *flags)
    assert (served["requests"], served["refused"]) == (40, 0)


def test_the_less_a_rule_reserves_the_more_requests_share_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    pool = ["--arrivals", "all-at-once", "--block-size", "16", "--num-blocks", "80"]
    rules = (["model-max"], ["max-tokens"], ["prompt", "--watermark", "0.5"], ["prompt", "--watermark", "0.4"])
    split = [numbers(capsys, *pool, "--reserve", *rule) for rule in rules]
    assert split[0]["hash"] == numbers(capsys, *pool)["hash"], "what is reserved unless a flag says otherwise"
    residents = [each["residents"] for each in split]
    assert residents == sorted(set(residents))
    for each in split:
        assert sum(each[f"kv_{kind}"] for kind in ("token_state", "reserved", "internal", "free")) == pytest.approx(1)
    assert split[0]["kv_internal"] > 0.5 > split[1]["kv_internal"]


def test_a_run_out_of_blocks_says_so_and_keeps_its_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json.gz"
    tight = ["--arrivals", "all-at-once", "--block-size", "16", "--num-blocks", "60", "--reserve", "prompt"]
    assert main([*SMALL, *tight, "--save", str(path)]) == 1
    printed = capsys.readouterr()
    trace = Trace.load(path)
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"simulate: step {trace.num_steps}: request r")
    assert line.endswith(f"(--num-blocks, --watermark, --reserve max-tokens); the trace up to there is in {path}")
    assert trace.num_steps > 0
    assert trace.meta["admission"] == "ReservePrompt"


@pytest.mark.parametrize(
    "flags",
    [
        ["--arrivals", "poisson", "--rate", "3"],
        ["--arrivals", "gamma", "--rate", "3", "--cv", "4"],
        ["--arrivals", "burst", "--rate", "9", "--on-seconds", "1", "--off-seconds", "4"],
        ["--arrivals", "closed", "--clients", "5", "--think", "0.1"],
        ["--arrivals", "all-at-once"],
        ["--rate", "20"],
        ["--length-scale", "0.5"],
        ["--device", "t4"],
        ["--model", "smollm2-135m"],
    ],
)
def test_every_knob_changes_the_run(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    changed = numbers(capsys, *flags)
    assert changed["requests"] == 40
    assert changed["hash"] != numbers(capsys)["hash"]


def test_clients_that_think_take_longer(capsys: pytest.CaptureFixture[str]) -> None:
    closed = ["--arrivals", "closed", "--clients", "5"]
    # 40 requests of 5 clients: seven thoughts each
    assert numbers(capsys, *closed, "--think", "2")["seconds"] > numbers(capsys, *closed)["seconds"] + 7 * 2


def test_a_saved_workload_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = load("mixed32").save(tmp_path / "mixed32.json")
    flags = ["simulate", "--workload-file", str(path), "--max-num-seqs", "8", "--json"]
    assert main(flags) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["output_tokens"] == 1325
    assert main([*flags, "--rate", "3"]) == 2
    assert "leave --requests, --rate, --arrivals out" in capsys.readouterr().err
    assert main(["simulate", "--workload-file", "nowhere.json"]) == 2
    assert "there is no file nowhere.json" in capsys.readouterr().err


def test_a_saved_trace_is_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json.gz"
    assert numbers(capsys, "--save", str(path))["hash"] == Trace.load(path).hash


def test_requests_over_the_limit_are_counted_as_refused(capsys: pytest.CaptureFixture[str]) -> None:
    served = numbers(capsys, "--max-model-len", "60")
    assert served["refused"] > 0
    assert served["refused"] + served["requests"] == 40


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--requests", "0"], "--requests: must be a whole number of at least 1, got 0"),
        (["--rate", "-1"], "--rate: must be a number above 0, such as 0.5, got -1"),
        (["--rate", "fast"], "--rate: must be a number above 0, such as 0.5, got 'fast'"),
        (["--max-wait", "nan"], "--max-wait: must be a number of at least 0, got nan"),
        (["--workload", "chit-chat"], "--workload: invalid choice: 'chit-chat'"),
        (
            ["--arrivals", "all-at-once", "--rate", "3"],
            "--rate has no effect with --arrivals all-at-once: leave",
        ),
        (["--max-wait", "1"], "--max-wait has no effect with --scheduler continuous: leave it out, or choose --sched"),
        (["--scheduler", "static", "--block-size", "8"], "--block-size has no effect with --scheduler static"),
        (["--scheduler", "dynamic", "--reserve", "prompt"], "--reserve has no effect with --scheduler dynamic: leave"),
        (
            ["--watermark", "0.1"],
            "--watermark has no effect with --reserve model-max: leave it out, or choose --reserve",
        ),
        (["--reserve", "prompt", "--watermark", "1"], "watermark, a share of the pool, must be less than 1, got 1"),
        (["--reserve", "promt"], "--reserve: invalid choice: 'promt'"),
        (["--max-num-batched-tokens", "9"], "max_num_batched_tokens=9 is less than max_num_seqs=256"),
        (["--scheduler", "dynamic", "--preferred-batch-sizes", "99"], "preferred batch size 99 is not between 1 and"),
        (["--save", "/no/such/folder/x.json.gz"], "--save: there is no folder /no/such/folder; make it"),
    ],
)
def test_bad_input_names_the_flag_the_limit_and_the_remedy(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*SMALL, *flags])
    except SystemExit as stopped:  # how argparse ends
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_memory_that_the_machine_does_not_have_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--device", "t4", "--model", "llama-3-8b"])
    assert "more than the 16 GB of this machine! Lower --max-model-len or --num-blocks" in capsys.readouterr().out
    main([*SMALL, "--device", "h100", "--max-num-seqs", "16"])
    assert "more than" not in capsys.readouterr().out
