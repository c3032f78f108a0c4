"""What this machine does: memory bandwidth, matrix rate, and the time of a step. Medians of several runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from lablib.model import ForwardBatch, LanguageModel
from lablib.model.checkpoint import default_checkpoint


def read_bandwidth(megabytes: int = 256, repeats: int = 7) -> float:
    """Bytes a second that all cores together read from memory: the best of some sums over a large array."""
    array = torch.ones(megabytes * 2**20 // 4)
    return array.nbytes / min(_times(array.sum, repeats))


def matmul_rate(dtype: torch.dtype, size: int = 2048, repeats: int = 5) -> float:
    """Floating-point operations a second of a large matrix product: the best of some runs."""
    a, b = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    return float(2 * size**3 / min(_times(lambda: a @ b, repeats)))


def decode_seconds(model: LanguageModel, batch_size: int, context_len: int = 128, repeats: int = 5) -> float:
    """Median time of a decode step: ``batch_size`` sequences compute one token each after ``context_len`` others."""
    block_size = context_len + 1
    model = model.with_cache(batch_size, block_size)
    blocks = torch.arange(batch_size, device=model.device)
    batch = ForwardBatch(
        token_ids=torch.full_like(blocks, 1),
        positions=torch.full_like(blocks, context_len),
        slot_mapping=blocks * block_size + context_len,
        query_lens=[1] * batch_size,
        starts=[context_len] * batch_size,
        context_lens=[block_size] * batch_size,
        block_tables=[[block] for block in range(batch_size)],
        logit_rows=blocks,
    )
    return statistics.median(_times(lambda: model.forward(batch).argmax(-1).tolist(), repeats))


def prefill_seconds(model: LanguageModel, num_tokens: int, repeats: int = 3) -> float:
    """Median time of a step that computes a prompt of ``num_tokens``."""
    model = model.with_cache(1, num_tokens)
    positions = torch.arange(num_tokens, device=model.device)
    batch = ForwardBatch(
        token_ids=torch.full_like(positions, 1),
        positions=positions,
        slot_mapping=positions,
        query_lens=[num_tokens],
        starts=[0],
        context_lens=[num_tokens],
        block_tables=[[0]],
        logit_rows=positions[-1:],
    )
    return statistics.median(_times(lambda: model.forward(batch).argmax(-1).tolist(), repeats))


def transformers_seconds(prompts: Sequence[Sequence[int]], num_tokens: int, dtype: torch.dtype) -> float:
    """Time in which ``transformers``' own ``generate`` answers all prompts with the default model, as one static batch.

    Args:
        prompts: token ids of each prompt; padded on the left, as ``generate`` wants them.
        num_tokens: tokens of each answer.
        dtype: of the weights, which are loaded anew and not counted in the time.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = AutoModelForCausalLM.from_pretrained(default_checkpoint(progress=False), dtype=dtype)
    width = max(map(len, prompts))
    token_ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    length = {"max_new_tokens": num_tokens, "min_new_tokens": num_tokens}
    start = time.perf_counter()
    model.generate(input_ids=token_ids, attention_mask=mask, do_sample=False, pad_token_id=0, **length)
    return time.perf_counter() - start


def _times(run: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each run, after one that is not counted."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times
