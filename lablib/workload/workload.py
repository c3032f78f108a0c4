"""A workload: who asks for what, and when; a value that can be run, scaled, saved and loaded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from lablib.request import Request, SamplingParams
from lablib.workload import storage
from lablib.workload.arrivals import ArrivalProcess, ClosedLoop
from lablib.workload.lengths import Lengths
from lablib.workload.storage import Item


class Tokenizes(Protocol):
    """What turns texts into token ids; a ``LanguageModel`` does."""

    def encode(self, text: str) -> list[int]: ...
    def encode_chat(self, messages: str) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that have not been sent yet; iterate over it, or give it to ``Engine.run``, as often as you like.

    Request ``r{i}`` belongs to item i. It ignores end-of-sequence tokens: every answer is exactly as long as its item
    says. With ``num_clients`` the workload is a closed loop: client c sends items c, c + num_clients, … one after the
    other, each ``think_us`` after the answer to the one before.

    Args:
        name: for titles.
        source: where lengths, texts and arrivals come from.
        items: one a request; those of an open workload in the order of their arrival.
        num_clients: clients of a closed loop; 0: requests arrive when their items say.
        think_us: what a client waits between an answer and its next request, in microseconds.
    """

    name: str
    source: str
    items: tuple[Item, ...]
    num_clients: int = 0
    think_us: int = 0

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests())

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all items."""
        return sum(item.prompt_tokens for item in self.items)

    @property
    def output_tokens(self) -> int:
        """Output tokens of all items."""
        return sum(item.output_tokens for item in self.items)

    @property
    def max_model_len(self) -> int:
        """Tokens of the longest request, prompt and output: what a scheduler has to make room for."""
        return max((item.prompt_tokens + item.output_tokens for item in self.items), default=1)

    def requests(self) -> list[Request]:
        """Fresh requests for the items that arrive by themselves: all of them, or the first one of every client."""
        count = min(self.num_clients, len(self.items)) if self.num_clients else len(self.items)
        return [self._request(index) for index in range(count)]

    def on_finish(self, request: Request, now: float) -> list[Request]:
        """What the client whose ``request`` ended at ``now`` (seconds) sends next: nothing in an open workload."""
        following = int(request.request_id.removeprefix("r")) + self.num_clients
        if not self.num_clients or following >= len(self.items):
            return []
        return [self._request(following, round(now * 1e6) + self.think_us)]

    def scaled(self, length: float = 1.0, rate: float = 1.0) -> Workload:
        """The same workload in small, or at another load.

        Args:
            length: factor on prompts and outputs; the least is 1 token. Coefficient of variation and ratio stay.
                Texts and token ids are dropped when it is not 1.
            rate: factor on the requests a second.

        Raises:
            ValueError: a factor that is not positive.
        """
        if length <= 0 or rate <= 0:
            raise ValueError(f"a workload is scaled by positive factors, got length={length} and rate={rate}")
        items = tuple(replace(item.scaled(length), arrival_us=round(item.arrival_us / rate)) for item in self.items)
        return replace(self, items=items, think_us=round(self.think_us / rate))

    def encoded(self, model: Tokenizes) -> Workload:
        """The same workload with this model's token ids for every text, and the prompt lengths that follow."""
        return replace(self, items=tuple(_encoded(item, model) if item.text else item for item in self.items))

    def save(self, path: str | Path) -> Path:
        """Write the workload to ``path`` as JSON."""
        return storage.write(Path(path), self.name, self.source, self.num_clients, self.think_us, self.items)

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload.

        Raises:
            WorkloadError: the file is no workload of this version; the message names the file, the item and the field.
        """
        return cls(**storage.read(Path(path)))

    def _request(self, index: int, arrival_us: int | None = None) -> Request:
        item = self.items[index]
        return Request(
            request_id=f"r{index}",
            prompt_token_ids=item.token_ids or _synthetic_ids(index, item.prompt_tokens),
            sampling=SamplingParams(max_tokens=item.output_tokens, ignore_eos=True, seed=index),
            arrival_time=(item.arrival_us if arrival_us is None else arrival_us) / 1e6,
            priority=item.priority,
        )


def synthetic(
    name: str,
    num_requests: int,
    arrivals: ArrivalProcess,
    prompts: Lengths,
    outputs: Lengths,
    seed: int = 0,
    source: str = "synthetic",
) -> Workload:
    """Draw a workload; the same arguments give the same workload on every machine.

    Args:
        name: for titles.
        num_requests: how many.
        arrivals: when they come.
        prompts: how long the prompts are.
        outputs: how long the answers are; independent of the prompts, as in the published traces.
        seed: of the one random generator that all draws come from.
        source: where the distributions come from.
    """
    if num_requests < 1:
        raise ValueError(f"a workload needs at least 1 request, got {num_requests}")
    rng = random.Random(seed)
    times = arrivals.times(num_requests, rng)
    items = tuple(Item(round(time * 1e6), prompts.draw(rng), outputs.draw(rng)) for time in times)
    if isinstance(arrivals, ClosedLoop):
        return Workload(name, source, items, arrivals.num_clients, round(arrivals.think_seconds * 1e6))
    return Workload(name, source, items)


def _encoded(item: Item, model: Tokenizes) -> Item:
    token_ids = model.encode_chat(item.text) if item.chat else model.encode(item.text)
    return replace(item, token_ids=tuple(token_ids), prompt_tokens=len(token_ids))


def _synthetic_ids(index: int, count: int) -> bytes:
    """Token ids of a prompt that only has a length: 0 … 255, valid for every model, one byte of memory each."""
    return random.Random(index).randbytes(count)
