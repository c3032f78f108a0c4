"""One step's work as the model sees it: a flat batch of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class ForwardBatch:
    """All tokens computed in one step, laid end to end; the model knows nothing of requests.

    Example: a prompt of three tokens (sequence A) beside a decode (sequence B, its 8th token)::

        token_ids   a0 a1 a2 b7        query_lens    3  1        starts  0  7
        positions    0  1  2  7        context_lens  3  8

    Tensors live on the model's device, lists on the host: whoever reads a list waits for nobody.

    Args:
        token_ids: int64 ``[num_tokens]``.
        positions: int64 ``[num_tokens]``, each token's place in its own sequence; padding too is below
            ``max_model_len``.
        slot_mapping: int64 ``[num_tokens]``, the row of the KV cache that each token writes: ``block_id * block_size
            + offset``; padding writes the scratch row ``num_blocks * block_size``.
        query_lens: tokens of each sequence computed in this step. Padding is included and stands last within its
            sequence; a finished row of a static batch is one padding token.
        starts: position of each sequence's first token of this step. Its first ``context_len - start`` tokens are
            real, what follows is padding.
        context_lens: keys that each sequence's last real token attends to: position of that token + 1.
        block_tables: block ids of each sequence, in order; a table may be longer than its context needs.
        logit_rows: int64 ``[num_logits]``, the rows of this batch whose logits are wanted.
    """

    token_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    query_lens: Sequence[int]
    starts: Sequence[int]
    context_lens: Sequence[int]
    block_tables: Sequence[Sequence[int]]
    logit_rows: Tensor

    @property
    def first_rows(self) -> list[int]:
        """Row of the flat batch at which each sequence begins."""
        return list(accumulate(self.query_lens, initial=0))[:-1]
