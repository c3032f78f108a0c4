"""A request: what was asked, and how far it has got."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from lablib.validate import as_float, one_of, real, whole

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
        TypeError: a value of another type; the message names it and what it must be. NumPy's numbers will do.
        ValueError: a value outside its range, NaN and infinity included; the message names it and the range.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checked = {
            "max_tokens": None if self.max_tokens is None else whole("max_tokens", self.max_tokens, least=1),
            "temperature": real("temperature (0 is greedy)", self.temperature, least=0),
            "top_k": whole("top_k (0 is off)", self.top_k, least=0),
            "top_p": real("top_p", self.top_p, above=0, most=1),
            "seed": None if self.seed is None else whole("seed", self.seed, least=0),
            "stop_token_ids": _token_ids("stop_token_ids", self.stop_token_ids),
        }
        one_of("ignore_eos", self.ignore_eos, bool, "True or False")
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _token_ids(name: str, token_ids: object) -> tuple[int, ...]:
    """The ids as plain ints; names the first that is none."""
    if isinstance(token_ids, str) or not isinstance(token_ids, Iterable):
        raise TypeError(f"{name} must be token ids, such as (2, 7), got {token_ids!r}")
    return tuple(whole(f"{name}[{i}]", token_id, least=0) for i, token_id in enumerate(token_ids))


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

    Raises:
        TypeError: a value of another type; the message names it and what it must be.
        ValueError: the prompt is empty. Whether it fits, and whether its ids are the model's, an engine sees.
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
    submitted: bool = field(default=False, repr=False)  # an engine has had it

    def __post_init__(self) -> None:
        one_of("request_id", self.request_id, str, "a text")
        what = f"request {self.request_id}:"
        prompt: object = self.prompt_token_ids
        if isinstance(prompt, str) or not isinstance(prompt, Sized):
            raise TypeError(f"{what} the prompt must be a list of token ids, got {prompt!r}")
        if len(self.prompt_token_ids) == 0:
            raise ValueError(f"{what} the prompt is empty; it needs at least one token")
        one_of(f"{what} sampling", self.sampling, SamplingParams, "SamplingParams")
        self.arrival_time = as_float(f"{what} arrival_time (seconds)", self.arrival_time)
        self.priority = whole(f"{what} priority", self.priority)
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
