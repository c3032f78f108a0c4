"""Flat batches for tests of the model, written as chunks of sequences instead of tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from lablib.model import ForwardBatch, LanguageModel

PROMPTS: list[dict[str, str]] = json.loads((Path(__file__).parent / "data" / "prompts.json").read_text("utf-8"))


@dataclass
class Piece:
    """Some consecutive tokens of one sequence, and padding behind them."""

    token_ids: Sequence[int]
    start: int
    table: Sequence[int]
    num_padding: int = 0


def flat_batch(
    pieces: Sequence[Piece],
    num_blocks: int,
    block_size: int,
    every_row: bool = True,
    device: str | torch.device = "cpu",
) -> ForwardBatch:
    """Lays pieces end to end; logits are asked for every real row, or only for each piece's last."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    wanted: list[int] = []
    for piece in pieces:
        first, length = len(tokens), len(piece.token_ids)
        places = range(piece.start, piece.start + length)
        tokens += [*piece.token_ids, *[0] * piece.num_padding]
        positions += range(piece.start, piece.start + length + piece.num_padding)
        slots += [piece.table[p // block_size] * block_size + p % block_size for p in places]
        slots += [num_blocks * block_size] * piece.num_padding
        real = range(first, first + length)
        wanted += real if every_row else real[-1:]
    return ForwardBatch(
        token_ids=torch.tensor(tokens, device=device),
        positions=torch.tensor(positions, device=device),
        slot_mapping=torch.tensor(slots, device=device),
        query_lens=[len(piece.token_ids) + piece.num_padding for piece in pieces],
        starts=[piece.start for piece in pieces],
        context_lens=[piece.start + len(piece.token_ids) for piece in pieces],
        block_tables=[piece.table for piece in pieces],
        logit_rows=torch.tensor(wanted, dtype=torch.int64, device=device),
    )


def prompt_token_ids(model: LanguageModel) -> list[list[int]]:
    """The fixed test set of real prompts: chat questions in the chat template, other texts as they stand."""
    encode = {"chat": model.encode_chat, "text": model.encode}
    return [encode[prompt["kind"]](prompt["text"]) for prompt in PROMPTS]
