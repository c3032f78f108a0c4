"""Where each gigabyte goes: the parts add up, the pool is as large as can be, and the paper agrees with the machine."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from default_model import default_model
from hypothesis import given
from hypothesis import strategies as st
from memory_tools import peak_of_tensors

from lablib.executor.model import ModelExecutor
from lablib.executor.sizing import StepLimits, shape_of
from lablib.kvcache import KVCacheManager, OutOfBlocks
from lablib.memory import MemoryPlan, PoolSizeError
from lablib.model import LanguageModel, toy_model
from lablib.paper_memory import paper_plan, step_bytes
from lablib.roofline import MODELS

LLAMA = MODELS["Llama-3-8B"]


def plan(memory: float = 80e9, model: str = "Llama-3-8B", **limits: float) -> MemoryPlan:
    return paper_plan(MODELS[model], "a card", int(memory), **limits)  # type: ignore[arg-type]


@st.composite
def plans(draw: st.DrawFn) -> MemoryPlan:
    rows = draw(st.integers(1, 500))
    return paper_plan(
        draw(st.sampled_from([MODELS["SmolLM2-135M"], MODELS["Qwen2.5-0.5B"], LLAMA])),
        "a card",
        draw(st.integers(int(60e9), int(200e9))),
        draw(st.sampled_from([2, 4])),
        draw(st.floats(0.9, 1)),
        rows + draw(st.integers(0, 20_000)),
        rows,
        draw(st.integers(1, 2048)),
    )


@given(plans())
def test_the_parts_add_up_to_the_memory_to_the_byte(split: MemoryPlan) -> None:
    assert sum(part.num_bytes for part in split.parts.values()) == split.memory
    assert all(part.num_bytes >= 0 for part in split.parts.values())


@given(plans())
def test_one_block_more_would_not_fit(split: MemoryPlan) -> None:
    cache = split.limit - split.weights.num_bytes - split.activations.num_bytes - split.other.num_bytes
    assert split.num_blocks * split.block_bytes <= cache < (split.num_blocks + 1) * split.block_bytes


def test_more_memory_or_a_larger_share_never_means_fewer_blocks_and_larger_steps_never_more() -> None:
    shares = [plan(gpu_memory_utilization=share / 100).num_blocks for share in range(30, 101)]
    memories = [plan(memory=gb * 1e9).num_blocks for gb in range(24, 141)]
    tokens = [plan(max_num_batched_tokens=n).num_blocks for n in range(32_000, 256, -1000)]
    rows = [plan(max_num_seqs=n).num_blocks for n in range(2048, 1, -64)]
    for blocks in (shares, memories, tokens, rows):
        assert blocks == sorted(blocks)
        assert blocks[0] < blocks[-1]


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_a_share_of_the_memory_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"gpu_memory_utilization .* above 0 and at most 1, got"):
        plan(gpu_memory_utilization=share)


def test_weights_that_do_not_fit_are_refused_with_need_limit_and_remedy() -> None:
    with pytest.raises(PoolSizeError) as error:
        plan(80e9, "Llama-3-70B")
    for words in ("Llama-3-70B", "141.11 GB", "may use 72.00 GB of 80.00 GB", "smaller model"):
        assert words in str(error.value)
    with pytest.raises(PoolSizeError, match=r"weights alone need 16\.06 GB, the engine may use 15\.30 GB"):
        plan(17e9)


def test_a_memory_without_room_for_one_block_is_refused_with_need_limit_and_remedy() -> None:
    with pytest.raises(PoolSizeError) as error:
        plan(18e9)
    for words in ("no block", "weights 16.06 GB", "may use 16.20 GB of 18.00 GB", "max_num_batched_tokens"):
        assert words in str(error.value)


def test_the_smallest_memory_that_fits_holds_one_block() -> None:
    split = plan(24e9, gpu_memory_utilization=1.0)
    least = split.memory - split.limit + split.taken + split.block_bytes
    assert plan(least, gpu_memory_utilization=1.0).num_blocks == 1
    with pytest.raises(PoolSizeError, match="no block"):
        plan(least - 1, gpu_memory_utilization=1.0)


def test_a_larger_share_is_advised_only_where_it_helps() -> None:
    for memory, helps in ((19e9, True), (18e9, False)):
        with pytest.raises(PoolSizeError) as error:
            plan(memory)
        assert ("raise gpu_memory_utilization" in str(error.value)) == helps
        assert not helps or plan(memory, gpu_memory_utilization=1.0).num_blocks > 0


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1, got 0"),
        (
            {"max_num_batched_tokens": 99, "max_num_seqs": 100},
            "max_num_batched_tokens=99 is less than max_num_seqs=100",
        ),
        ({"block_size": 0}, "block_size must be at least 1 token, got 0"),
    ],
)
def test_a_limit_that_can_not_work_is_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**limits)


def test_the_split_is_that_of_a_published_profile() -> None:
    """vLLM, Llama-3-8B on 79.22 GiB at 0.9, non_torch_memory 1.79 GiB: 53.29 GiB for the cache (pull request 10511)."""
    split = plan(79.22 * 2**30)
    assumed_other = split.parts["other"].num_bytes
    cache = split.parts["KV cache"].num_bytes - (1.79 * 2**30 - assumed_other)
    assert split.weights.num_bytes / 2**30 == pytest.approx(14.96, abs=0.01)
    assert cache / 2**30 == pytest.approx(53.29, rel=0.01)


def test_the_presets_weights_and_widths_belong_together() -> None:
    for shape in MODELS.values():
        heads = shape.num_heads + 2 * shape.num_kv_heads
        bias = heads * shape.head_dim * shape.name.startswith("Qwen2")
        attention = shape.hidden_size * shape.head_dim * (heads + shape.num_heads) + bias
        layer = attention + 3 * shape.hidden_size * shape.intermediate_size + 2 * shape.hidden_size
        assert shape.layer_weights == shape.num_layers * layer + shape.hidden_size, shape.name


# How many requests fit


def test_a_reservation_is_whole_blocks_or_nothing() -> None:
    for block_size, length in itertools.product((1, 7, 16, 100), (1, 99, 100, 101)):
        split = plan(24e9, block_size=block_size, max_num_batched_tokens=512)
        kv = KVCacheManager(split.num_blocks, block_size)
        assert split.requests_reserved(length) == kv.pool.num_blocks // kv.blocks_for(length)
    assert plan(24e9).requests_reserved(plan(24e9).num_tokens + 1) == 0


def test_requests_on_demand_are_as_many_as_a_pool_really_holds() -> None:
    split, rng = plan(), random.Random(0)
    kv = KVCacheManager(split.num_blocks, split.block_size)
    held = 0
    try:
        for held in itertools.count():
            kv.grow(f"r{held}", rng.randint(1, 199))
    except OutOfBlocks:
        assert held > 1000
    assert split.requests_on_demand(100) == pytest.approx(held, rel=0.02)


def test_lengths_below_one_token_are_refused() -> None:
    with pytest.raises(ValueError, match="max_model_len must be at least 1 token, got 0"):
        plan().requests_reserved(0)
    with pytest.raises(ValueError, match=r"mean_tokens must be at least 1, got 0\.5"):
        plan().requests_on_demand(0.5)


# Paper against tensors


def peaks(model: LanguageModel, tokens: int, rows: int) -> tuple[int, int]:
    """Most bytes of tensors alive in a step of prompts, and the larger of the two moments on paper."""
    step = StepLimits(tokens, rows, 256).largest(block_size=16)[0]
    assert step.num_tokens == tokens
    executor = ModelExecutor(model, num_blocks=1, block_size=16)
    paper = step_bytes(shape_of(model.config), model.dtype.itemsize, tokens, rows)
    return peak_of_tensors(lambda: executor.execute(step)), max(paper)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("tokens", "rows"), [(512, 2), (512, 512)])
def test_a_step_holds_the_tensors_that_the_paper_counts(dtype: torch.dtype, tokens: int, rows: int) -> None:
    model = toy_model(dtype=dtype, vocab_size=259 if rows == 2 else 4000)
    found, paper = peaks(model, tokens, rows)
    assert found == pytest.approx(paper, rel=0.05)


@pytest.mark.model
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("tokens", "rows"), [(512, 2), (300, 300)])
def test_the_default_models_step_holds_the_tensors_that_the_paper_counts(
    dtype: torch.dtype, tokens: int, rows: int
) -> None:
    found, paper = peaks(default_model(dtype), tokens, rows)
    assert found == pytest.approx(paper, rel=0.05)
