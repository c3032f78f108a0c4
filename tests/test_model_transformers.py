"""The default model against transformers, on the same tensors in float32."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from default_model import default_model
from forward_batches import Piece, flat_batch, prompt_token_ids

from lablib.model import LanguageModel, sample
from lablib.model.checkpoint import resolve
from lablib.request import SamplingParams

pytestmark = pytest.mark.model

NUM_TOKENS = 64
NEAR_TIE = 1e-3


def ours() -> LanguageModel:
    return default_model(torch.float32)


@cache
def theirs() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(resolve(None), dtype=torch.float32, attn_implementation="sdpa").eval()


@pytest.fixture(scope="module", autouse=True)
def _theirs_goes_with_this_file() -> Iterator[None]:
    yield
    theirs.cache_clear()


@torch.inference_mode()
def their_logits(token_ids: list[int]) -> torch.Tensor:
    logits: torch.Tensor = theirs()(torch.tensor([token_ids])).logits[0]
    return logits


def greedy_in_one_batch(model: LanguageModel, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
    """All prompts in one flat prefill, then all decodes together, through one giant block each."""
    block_size = max(map(len, prompts)) + num_tokens
    model.allocate_cache(len(prompts), block_size)
    pieces = [Piece(prompt, 0, [i]) for i, prompt in enumerate(prompts)]
    outputs: list[list[int]] = [[] for _ in prompts]
    for index in range(num_tokens):
        logits = model.forward(flat_batch(pieces, len(prompts), block_size, every_row=False))
        tokens = sample(logits, [SamplingParams()] * len(prompts), [index] * len(prompts))
        for output, token in zip(outputs, tokens, strict=True):
            output.append(token)
        pieces = [Piece([t], len(p.token_ids) + p.start, p.table) for t, p in zip(tokens, pieces, strict=True)]
    return outputs


def test_logits_agree_within_a_thousandth() -> None:
    for token_ids in prompt_token_ids(ours())[:8]:
        assert (ours().forward_full(token_ids) - their_logits(token_ids)).abs().max() < 1e-3


def test_chunked_and_paged_logits_agree_within_a_thousandth() -> None:
    token_ids = max(prompt_token_ids(ours()), key=len)
    table = [7, 2, 9, 0, 4, 11, 1, 5]
    assert len(token_ids) <= 16 * len(table)
    ours().allocate_cache(12, 16)
    cuts = [0, 23, 24, 60, len(token_ids)]
    logits = [
        ours().forward(flat_batch([Piece(token_ids[start:end], start, table)], 12, 16)) for start, end in pairwise(cuts)
    ]
    assert (torch.cat(logits) - their_logits(token_ids)).abs().max() < 1e-3


def test_greedy_tokens_of_the_fixed_prompts_are_those_of_transformers() -> None:
    """Given the tokens so far, transformers' argmax is our next token, at each of 64 places: so the texts agree."""
    prompts = prompt_token_ids(ours())
    assert len(prompts) >= 20
    mismatches = []
    for number, (prompt, output) in enumerate(
        zip(prompts, greedy_in_one_batch(ours(), prompts, NUM_TOKENS), strict=True)
    ):
        logits = their_logits(prompt + output[:-1])[len(prompt) - 1 :]
        differs = (logits.argmax(-1) != torch.tensor(output)).nonzero().flatten().tolist()
        if differs:
            best = logits[differs[0]].topk(2).values
            gap = float(best[0] - best[1])
            kind = "near-tie" if gap < NEAR_TIE else "BUG"
            mismatches.append(f"prompt {number}, token {differs[0]}: top-2 gap {gap:.2e}, {kind}")
    assert not mismatches, "\n".join(mismatches)


def test_bfloat16_strays_no_further_from_float32_than_transformers_does() -> None:
    from transformers import AutoModelForCausalLM

    token_ids = prompt_token_ids(ours())[1]
    exact = their_logits(token_ids)
    rounded = AutoModelForCausalLM.from_pretrained(resolve(None), dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        their_error = (rounded(torch.tensor([token_ids])).logits[0].float() - exact).square().mean().sqrt()
    found = default_model(torch.bfloat16).forward_full(token_ids)
    assert found.dtype is torch.float32
    assert (found - exact).square().mean().sqrt() < 1.2 * their_error


def test_encoding_decoding_and_the_chat_template_are_those_of_the_checkpoint() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve(None))
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Bye"},
    ]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert ours().decode(ours().encode("Größe: 5 °C, 漢字")) == "Größe: 5 °C, 漢字"
    assert tokenizer.decode(ours().encode_chat(messages)) == expected
    assert ours().encode_chat("Hi") == ours().encode_chat([{"role": "user", "content": "Hi"}])
