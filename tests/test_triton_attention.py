"""The Triton backend serves a model as the PyTorch backend does: on a GPU where there is one, else interpreted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forward_batches import Piece, flat_batch, prompt_token_ids

from labkernels import paged_decode
from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.model import AttentionBackend, LanguageModel, TorchAttention, load_model, toy_model
from lablib.model.loading import default_backend, make_backend
from lablib.request import SamplingParams
from lablib.scheduler import ContinuousBatching, Scheduler, StaticBatching

pytest.importorskip("triton", reason="the kernels need Triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def toy(backend: AttentionBackend) -> LanguageModel:
    return toy_model(dtype=torch.float32, num_heads=6, num_kv_heads=2, head_dim=16, backend=backend, device=DEVICE)


def test_logits_of_a_mixed_batch_are_those_of_the_pytorch_backend() -> None:
    prompt = list(range(100, 130))
    first = [Piece(prompt[:20], 0, [4, 1, 6]), Piece(prompt[:7], 0, [2]), Piece(prompt[:11], 0, [0, 5])]
    second = [  # a decode, a chunk from the middle, a whole prompt with padding behind it, a finished row
        Piece(prompt[7:8], 7, [2]),
        Piece(prompt[20:29], 20, [4, 1, 6, 3]),
        Piece(prompt[:3], 0, [7], num_padding=4),
        Piece([], 11, [0, 5], num_padding=1),
    ]
    logits = []
    for backend in (TorchAttention(), make_backend("triton")):
        model = toy(backend)
        model.allocate_cache(num_blocks=8, block_size=8)
        model.forward(flat_batch(first, num_blocks=8, block_size=8, device=DEVICE))
        logits.append(model.forward(flat_batch(second, num_blocks=8, block_size=8, device=DEVICE)))
    assert len(logits[0]) == 13
    assert torch.allclose(*logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "make_scheduler",
    [
        lambda: StaticBatching(3, 64),
        lambda: ContinuousBatching(3, 64, max_num_batched_tokens=64),
        lambda: ContinuousBatching(3, 64, block_size=7, num_blocks=30),
        lambda: ContinuousBatching(4, 64, block_size=1, num_blocks=256),
    ],
    ids=["static", "one block a request", "blocks of 7", "blocks of 1"],
)
def test_greedy_tokens_are_those_of_the_pytorch_backend_under_any_scheduler(make_scheduler: type[Scheduler]) -> None:
    answers = []
    for backend in (TorchAttention(), make_backend("triton")):
        scheduler = make_scheduler()
        executor = ModelExecutor(toy(backend), scheduler.kv.pool.num_blocks, scheduler.kv.block_size)
        prompts = [list(range(length)) for length in (3, 20, 9, 14, 2)]
        answers.append(Engine(scheduler, executor).generate(prompts, SamplingParams(max_tokens=8, ignore_eos=True)))
    assert [a.token_ids for a in answers[0]] == [a.token_ids for a in answers[1]]


def test_a_giant_block_does_not_cut_a_short_context(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spy(*args: Any, max_context_len: int, **rest: Any) -> torch.Tensor:
        asked.append(max_context_len)
        return paged_decode(*args, max_context_len=max_context_len, **rest)

    monkeypatch.setattr("lablib.model.triton_attention.paged_decode", spy)
    model = toy(make_backend("triton"))
    model.allocate_cache(num_blocks=2, block_size=8192)
    model.forward(flat_batch([Piece([1, 2, 3], 0, [1])], 2, 8192, device=DEVICE))
    model.forward(flat_batch([Piece([4], 3, [1])], 2, 8192, device=DEVICE))
    assert asked == [4, 4], "one decode in each of two layers, over four keys and not over a block of 8,192"


@pytest.mark.model
def test_the_default_model_speaks_the_same_through_the_kernels() -> None:
    answers = []
    for backend in ("torch", "triton"):
        model = load_model(dtype=torch.float32, backend=backend, device=DEVICE)
        scheduler = ContinuousBatching(2, 64, block_size=16, num_blocks=8)
        prompts = [ids[:12] for ids in prompt_token_ids(model)[:2]]
        executor = ModelExecutor(model, num_blocks=8, block_size=16)
        answers.append(Engine(scheduler, executor).generate(prompts, SamplingParams(max_tokens=2, ignore_eos=True)))
    assert [a.token_ids for a in answers[0]] == [a.token_ids for a in answers[1]]


@pytest.mark.parametrize(
    ("dtype", "head_dim", "message"),
    [
        (torch.float64, 16, "float64: the kernels compute in float32"),
        (torch.float32, 24, "head_dim is 24.*power of two"),
    ],
)
def test_a_model_that_no_kernel_serves_is_refused_by_name(dtype: torch.dtype, head_dim: int, message: str) -> None:
    model = toy_model(dtype=dtype, head_dim=head_dim, backend=make_backend("triton"))
    with pytest.raises(ValueError, match=f"toy-0 can't use the Triton kernels.*{message}.*torch backend"):
        model.allocate_cache(4, 16)


def test_the_default_backend_is_triton_only_on_a_gpu_and_for_a_model_it_serves() -> None:
    config = toy_model(head_dim=64).config
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert default_backend(config, torch.bfloat16, gpu) == "triton"
    assert default_backend(config, torch.float64, gpu) == "torch"
    assert default_backend(toy_model(head_dim=24).config, torch.bfloat16, gpu) == "torch"
    assert default_backend(config, torch.bfloat16, cpu) == "torch"


def test_an_unknown_backend_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="no attention backend 'flash': choose 'torch' or 'triton'"):
        make_backend("flash")  # type: ignore[arg-type]


def test_a_forward_pass_before_there_is_a_cache_says_what_to_call() -> None:
    with pytest.raises(RuntimeError, match="allocate_cache"):
        toy(make_backend("triton")).forward(flat_batch([Piece([1, 2], 0, [0])], 1, 4, device=DEVICE))
