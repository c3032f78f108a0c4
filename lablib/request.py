"""A request: what was asked, and how far it has got."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

DEFAULT_MAX_TOKENS = 128


class RequestStatus(Enum):
    """Where a request stands in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class FinishReason(Enum):
    """Why a request ended."""

    STOP = "stop"  # an end-of-sequence or stop token
    LENGTH = "length"  # max_tokens reached
    ABORT = "abort"  # the caller gave up
    ERROR = "error"  # it could not be served


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of one request are chosen, and when it stops.

    Args:
        max_tokens: most output tokens; ``None`` asks for ``DEFAULT_MAX_TOKENS``, or fewer if
            the model's context has no room for that many.
        temperature: 0 takes the most likely token (greedy); higher is more random.
        top_k: sample among the k most likely tokens only; 0 turns this off.
        top_p: sample among the fewest tokens whose probabilities add up to p; 1 turns this off.
        seed: makes a sampled request repeatable; ``None`` derives one from the request id.
        ignore_eos: go on past the end-of-sequence token, for runs of a fixed length.
        stop_token_ids: tokens that end the request besides the model's end-of-sequence tokens.

    Raises:
        ValueError: a value outside its range; the message names it and the range.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or a positive count, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"seed must be 0 or larger, got {self.seed}")


@dataclass(slots=True, eq=False)
class Request:
    """One request and its progress through the engine.

    A step computes some of the ``num_tokens - num_computed_tokens`` tokens whose K/V are missing.
    That one difference tells a prompt (many), a decode (1) and a recompute (all of them) apart.

    Args:
        request_id: unique name, shown in pictures and errors.
        prompt_token_ids: the prompt, at least one token.
        sampling: how tokens are chosen and when to stop.
        arrival_time: seconds on the engine's clock.
        priority: lower is served sooner, by schedulers that look at it.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    arrival_time: float = 0.0
    priority: int = 0

    output_token_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    status: RequestStatus = RequestStatus.WAITING
    finish_reason: FinishReason | None = None
    slot: int | None = None

    def __post_init__(self) -> None:
        if len(self.prompt_token_ids) == 0:
            raise ValueError(f"request {self.request_id}: the prompt is empty; it needs at least one token")
        if self.sampling.seed is None:
            self.sampling = replace(self.sampling, seed=zlib.crc32(self.request_id.encode()))

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.output_token_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far: the tokens whose K/V the next sample needs."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def max_tokens(self) -> int:
        return DEFAULT_MAX_TOKENS if self.sampling.max_tokens is None else self.sampling.max_tokens

    @property
    def finished(self) -> bool:
        return self.status is RequestStatus.FINISHED

    def tokens(self, start: int, end: int) -> tuple[int, ...]:
        """Token ids of positions ``start`` up to ``end``, prompt and output as one sequence."""
        num_prompt = len(self.prompt_token_ids)
        if start >= num_prompt:
            return tuple(self.output_token_ids[start - num_prompt : end - num_prompt])
        head = tuple(self.prompt_token_ids[start : min(end, num_prompt)])
        return head + tuple(self.output_token_ids[: max(0, end - num_prompt)])


class RequestOutput(NamedTuple):
    """What one step delivers to one caller: new tokens only.

    Args:
        request_id: whose tokens these are.
        token_ids: tokens that have not been delivered before; may be empty when a request ends by abort or error.
        finish_reason: set on the last output of a request, with ``message`` saying more after an error.
    """

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    message: str = ""

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None
