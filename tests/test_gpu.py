"""The model and the engine on a GPU: the same tokens as on the CPU, with either backend, in any batch."""

from __future__ import annotations

import pytest
import torch
from forward_batches import Piece, flat_batch
from runs import mixed_requests

from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.model import LanguageModel, load_model, toy_model
from lablib.model.loading import BackendName, make_backend
from lablib.request import SamplingParams
from lablib.scheduler import ContinuousBatching, DynamicBatching, Scheduler, StaticBatching

pytestmark = pytest.mark.gpu

SCHEDULERS = {
    "static": lambda: StaticBatching(4, 80),
    "dynamic": lambda: DynamicBatching(4, 80, max_wait=0.01),
    "one block a request": lambda: ContinuousBatching(5, 80),
    "blocks of 16": lambda: ContinuousBatching(5, 80, block_size=16, num_blocks=25),
    "blocks of 7": lambda: ContinuousBatching(5, 80, block_size=7, num_blocks=60),
    "blocks of 1": lambda: ContinuousBatching(5, 80, block_size=1, num_blocks=400),
}


def outputs(model: LanguageModel, scheduler: Scheduler) -> list[list[int]]:
    requests = mixed_requests(12)
    executor = ModelExecutor(model, scheduler.kv.pool.num_blocks, scheduler.kv.block_size)
    Engine(scheduler, executor).run(requests)
    return [request.output_token_ids for request in requests]


def toy(dtype: torch.dtype, backend: BackendName, device: str) -> LanguageModel:
    heads = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 16}
    return toy_model(dtype=dtype, backend=make_backend(backend), device=torch.device(device), **heads)


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize(
    ("dtype", "backend"), [(torch.float64, "torch"), (torch.float32, "triton")], ids=["torch", "triton"]
)
def test_tokens_are_those_of_the_cpu_under_every_scheduler(name: str, dtype: torch.dtype, backend: BackendName) -> None:
    expected = outputs(toy(dtype, "torch", "cpu"), StaticBatching(1, 80))
    assert outputs(toy(dtype, backend, "cuda"), SCHEDULERS[name]()) == expected


def shaped(dtype: torch.dtype, backend: BackendName, device: str) -> LanguageModel:
    """Random weights in the shape of two layers of the default model."""
    heads = {"num_heads": 9, "num_kv_heads": 3, "head_dim": 64}
    return toy_model(dtype=dtype, backend=make_backend(backend), device=torch.device(device), **heads)


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_logits_are_those_of_float64_up_to_rounding(backend: BackendName, dtype: torch.dtype, limit: float) -> None:
    prompt = [(7 * i) % 250 for i in range(120)]
    first = [Piece(prompt[:100], 0, [9, 1, 6, 4, 0, 8, 3]), Piece(prompt[:31], 0, [2, 5])]
    second = [Piece(prompt[100:], 100, [9, 1, 6, 4, 0, 8, 3, 7]), Piece(prompt[31:32], 31, [2, 5])]
    logits = []
    for model in (shaped(torch.float64, "torch", "cpu"), shaped(dtype, backend, "cuda")):
        model.allocate_cache(num_blocks=10, block_size=16)
        for pieces in (first, second):
            batch = flat_batch(pieces, num_blocks=10, block_size=16, device=model.device)
            out = model.forward(batch)
        logits.append(out.cpu().double())
    assert (logits[1] - logits[0]).norm() / logits[0].norm() < limit


@pytest.mark.model
def test_the_default_model_says_on_the_gpu_what_it_says_on_the_cpu() -> None:
    answers = []
    for device in ("cpu", "cuda"):
        model = load_model(dtype=torch.float32, device=device)
        scheduler = ContinuousBatching(4, 128, block_size=16, num_blocks=32)
        prompts = [model.encode_chat(text) for text in ("What is a GPU?", "Name three rivers.", "Count to ten.")]
        executor = ModelExecutor(model, num_blocks=32, block_size=16)
        answers.append(Engine(scheduler, executor).generate(prompts, SamplingParams(max_tokens=24)))
    assert [a.token_ids for a in answers[0]] == [a.token_ids for a in answers[1]]
