"""What happens to a request at the engine's door: it is refused by name, or made ready for the scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lablib.request import DEFAULT_MAX_TOKENS, Request, RequestStatus, SamplingParams
from lablib.validate import whole

if TYPE_CHECKING:
    from lablib.executor import Executor
    from lablib.scheduler import Scheduler


def require_fresh(request: Request) -> None:
    """Refuse a request that an engine has had before: it has tokens, a slot or an end already.

    Raises:
        ValueError: the message names it.
    """
    if request.submitted or request.status is not RequestStatus.WAITING or request.num_output_tokens:
        raise ValueError(
            f"request {request.request_id} was submitted before, and is {request.status.value}; make a new Request"
        )


def settle(request: Request, scheduler: Scheduler, executor: Executor) -> None:
    """Check what only an engine can, and fill in what was left open: the output limit, the model's own stop tokens.

    Raises:
        ValueError: an arrival time that is no time, or a token that the model does not have; names request and value.
    """
    name = f"request {request.request_id}:"
    if not (math.isfinite(request.arrival_time) and request.arrival_time >= 0):
        raise ValueError(f"{name} arrival_time must be finite, 0 seconds or more, got {request.arrival_time}")
    request.prompt_token_ids = _prompt(name, request.prompt_token_ids, executor.vocab_size)
    request.sampling = _sampling(request, scheduler, executor)


def _prompt(name: str, prompt: Sequence[int], vocab_size: int | None) -> Sequence[int]:
    """The prompt as plain ints, each a token of the vocabulary; bytes are ints already, and stay what they are."""
    most = None if vocab_size is None else vocab_size - 1
    if not isinstance(prompt, bytes):
        try:
            return [whole(f"{name} prompt_token_ids[{i}]", token, least=0, most=most) for i, token in enumerate(prompt)]
        except TypeError as error:  # at the door every refusal is a ValueError
            raise ValueError(str(error)) from error
    if most is not None:
        whole(f"{name} the largest prompt token id", max(prompt), most=most)
    return prompt


def _sampling(request: Request, scheduler: Scheduler, executor: Executor) -> SamplingParams:
    sampling = request.sampling
    if sampling.max_tokens is None:
        longest = min(scheduler.max_model_len, scheduler.kv.capacity)
        room = longest - request.num_prompt_tokens
        sampling = replace(sampling, max_tokens=max(1, min(DEFAULT_MAX_TOKENS, room)))
    if not sampling.ignore_eos:
        sampling = replace(sampling, stop_token_ids=(*sampling.stop_token_ids, *executor.eos_token_ids))
    return sampling
