"""A step waits for its device once, at its end.

Tensors of the ``meta`` device have shapes and no numbers, and reading one raises: what runs there without a device
reads nothing back, so it would not wait on a GPU either.
"""

from __future__ import annotations

import warnings

import pytest
import torch

from lablib.executor.model import ModelExecutor
from lablib.model import LanguageModel, sample, sampler, toy_model
from lablib.model.loading import BackendName, make_backend
from lablib.request import SamplingParams
from lablib.step import Chunk, StepPlan

BLOCK_SIZE = 8
TABLES = {"a": (4, 1, 6), "b": (2, 7), "c": (0, 5, 3)}
GREEDY, DRAWN = SamplingParams(), SamplingParams(temperature=1.0, seed=0)


def chunk(
    name: str, start: int, length: int, padding: int = 0, sample: bool = True, sampling: SamplingParams = GREEDY
) -> Chunk:
    return Chunk(name, 0, start, tuple(range(length)), padding, TABLES[name], sampling, 0, sample)


STEPS = {
    "decodes": (chunk("a", 20, 1), chunk("b", 9, 1), chunk("c", 3, 1)),
    "whole prompts": (chunk("a", 0, 20), chunk("b", 0, 1), chunk("c", 0, 7)),
    "chunks from the middle": (chunk("a", 8, 9, sample=False), chunk("c", 3, 12)),
    "a padded rectangle": (chunk("a", 0, 9), chunk("b", 0, 4, 5), chunk("c", 6, 0, 9, sample=False)),
    "decodes of a padded batch": (chunk("a", 9, 1), chunk("b", 5, 0, 1, sample=False)),
    "all mixed": (chunk("a", 0, 16, sample=False), chunk("b", 4, 5), chunk("c", 23, 1)),
    "nothing sampled": (chunk("a", 0, 16, sample=False),),
    "drawn": (chunk("a", 20, 1, sampling=DRAWN), chunk("b", 9, 1, sampling=DRAWN), chunk("c", 3, 1)),
}


@pytest.mark.parametrize("name", STEPS)
def test_packing_and_computing_a_step_reads_nothing_back(name: str) -> None:
    executor = ModelExecutor(toy_model(device="meta"), num_blocks=8, block_size=BLOCK_SIZE)
    logits = executor.model.forward(executor.pack(STEPS[name]))
    assert logits.is_meta
    assert len(logits) == sum(chunk.sample for chunk in STEPS[name])


def test_computing_without_a_cache_reads_nothing_back() -> None:
    assert toy_model(device="meta").forward_full([1, 2, 3]).is_meta


@pytest.mark.parametrize(
    ("params", "num_drawn"), [([GREEDY] * 6, 0), ([DRAWN, GREEDY, DRAWN, GREEDY, GREEDY, DRAWN], 3), ([], 0)]
)
def test_sampling_reads_once_the_best_tokens_and_the_logits_of_drawn_rows(
    params: list[SamplingParams], num_drawn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def spy(*tensors: torch.Tensor) -> list[torch.Tensor]:
        reads.append([tuple(tensor.shape) for tensor in tensors])
        return [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in tensors]

    monkeypatch.setattr(sampler, "to_host", spy)
    sample(torch.empty(len(params), 50, device="meta"), params, range(len(params)))
    assert reads == [[(len(params),), (num_drawn, 50)]]


def model_on_gpu(backend: BackendName) -> LanguageModel:
    return toy_model(dtype=torch.float32, head_dim=16, backend=make_backend(backend), device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_waits_for_the_gpu_once(name: str, backend: BackendName) -> None:
    executor = ModelExecutor(model_on_gpu(backend), num_blocks=8, block_size=BLOCK_SIZE)
    plan = StepPlan(STEPS[name])
    executor.execute(plan)  # kernels are compiled, libraries started
    try:
        torch.cuda.set_sync_debug_mode("error")
        executor.model.forward(executor.pack(plan.chunks))
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            executor.execute(plan)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([wait for wait in waits if "synchronizing" in str(wait.message)]) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", STEPS)
def test_when_a_step_is_over_the_gpu_has_nothing_left_to_do(name: str) -> None:
    executor = ModelExecutor(model_on_gpu("torch"), num_blocks=8, block_size=BLOCK_SIZE)
    plan = StepPlan(STEPS[name])
    executor.execute(plan)
    torch.cuda._sleep(200_000_000)  # about a tenth of a second of work that is queued before the step
    assert not torch.cuda.current_stream().query()
    executor.execute(plan)
    assert torch.cuda.current_stream().query()
