"""Made-up runs of every kind of batching, written through the recorder, for tests of what only looks at traces."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lablib.recorder import TraceRecorder
from lablib.request import FinishReason, Request, RequestOutput, SamplingParams
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import Trace

WORDS = ("The", "cache", "keeps", "what", "has", "been", "read", "so", "a", "new", "word", "costs", "one", "row", ".")


@dataclass(slots=True)
class Job:
    """A request on its way, with the blocks it holds."""

    request: Request
    length: int
    slot: int = -1
    computed: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.request.num_tokens - self.computed


def make_jobs(count: int, *, seed: int, prompt: tuple[int, int], output: tuple[int, int], gap: float) -> list[Job]:
    """Requests with lengths drawn evenly from ``prompt`` and ``output`` tokens, ``gap`` seconds apart on average."""
    rng, now, jobs = random.Random(seed), 0.0, []
    for index in range(count):
        length = rng.randint(*output)
        tokens = [rng.randrange(1000) for _ in range(rng.randint(*prompt))]
        sampling = SamplingParams(max_tokens=max(length, output[1]))
        jobs.append(Job(Request(f"r{index}", tokens, sampling, arrival_time=now), length))
        now += rng.expovariate(1 / gap) if gap else 0.0
    return jobs


class Simulation:
    """A clock, a recorder and the requests that have not arrived yet; subclasses decide who computes what."""

    def __init__(self, jobs: list[Job], meta: dict[str, Any], *, text: bool = False, max_steps: int = 100_000) -> None:
        self.recorder = TraceRecorder({"workload": "synthetic chat", "executor": "made up", **meta})
        self.pending, self.waiting, self.running = list(jobs), [], []
        self.now, self.text, self.max_steps = 0.0, text, max_steps
        self.admitted: list[str] = []
        self.preempted: list[str] = []
        self.waits: dict[str, str] = {}
        self._said = ("", "")

    def run(self) -> Trace:
        while (self.pending or self.waiting or self.running) and self.recorder.trace.num_steps < self.max_steps:
            self._arrive()
            self.admitted, self.preempted, self.waits = [], [], {}
            chunks = self.plan()
            if not chunks:
                self.now = self.pending[0].request.arrival_time
                continue
            plan = StepPlan(tuple(chunks), (), tuple(self.admitted), tuple(self.preempted), self.waits)
            self.recorder.record_plan(plan)
            work = sum(len(chunk.token_ids) + chunk.num_padding for chunk in chunks)
            end = self.now + 0.008 + 0.00006 * work
            result = StepResult(tuple((1,) * chunk.sample for chunk in chunks), end - self.now)
            self.recorder.record_step(plan, result, self.now, end)
            self.now = end
            self.recorder.record_outputs(self.update(chunks))
        if self.text:
            self.recorder.add_text(lambda ids: " ".join(WORDS[token % len(WORDS)] for token in ids) + " ")
        return self.recorder.trace

    def plan(self) -> list[Chunk]:
        raise NotImplementedError

    def update(self, chunks: list[Chunk]) -> list[RequestOutput]:
        raise NotImplementedError

    def say(self, job: Job, reason: str) -> None:
        if self._said != (job.request.request_id, reason):
            self.waits[job.request.request_id] = reason
            self._said = (job.request.request_id, reason)

    def chunk(self, job: Job, tokens: int, padding: int = 0) -> Chunk:
        ids = job.request.tokens(job.computed, job.computed + tokens)
        sample = tokens > 0 and job.computed + tokens == job.request.num_tokens
        return Chunk(job.request.request_id, job.slot, job.computed, ids, padding, tuple(job.blocks),
                     job.request.sampling, job.request.num_output_tokens, sample)  # fmt: skip

    def give(self, job: Job, blocks: list[int]) -> None:
        job.blocks += blocks
        self.recorder.record_blocks([("allocated", job.request.request_id, tuple(blocks))])

    def take(self, job: Job) -> list[int]:
        blocks, job.blocks = job.blocks, []
        self.recorder.record_blocks([("freed", job.request.request_id, tuple(blocks))])
        return blocks

    def _arrive(self) -> None:
        while self.pending and self.pending[0].request.arrival_time <= self.now + 1e-9:
            job = self.pending.pop(0)
            self.recorder.add_request(job.request)
            self.waiting.append(job)


class Continuous(Simulation):
    """Iteration-level batching over a paged cache: blocks on demand, chunks under a budget, the youngest preempted."""

    def __init__(self, jobs: list[Job], *, slots: int, budget: int, blocks: int, block_size: int, **more: Any) -> None:
        meta = {
            "scheduler": "ContinuousBatching",
            "pieces": {"schedule": "yours", "kv manager": "yours", "mix": "reference"},
            "max_num_seqs": slots, "max_num_batched_tokens": budget, "block_size": block_size, "num_blocks": blocks,
            "max_model_len": 4096,
        }  # fmt: skip
        super().__init__(jobs, meta, **more)
        self.slots, self.budget, self.block_size = slots, budget, block_size
        self.free = list(range(blocks))[::-1]

    def need(self, job: Job, tokens: int) -> int:
        return -(-(job.computed + tokens) // self.block_size) - len(job.blocks)

    def plan(self) -> list[Chunk]:
        chunks, left = [], self.budget
        for job in list(self.running):
            tokens = min(job.missing, left)
            while job in self.running and self.need(job, tokens) > len(self.free):
                self.preempt(self.running[-1])
            if job in self.running and tokens:
                chunks.append(self.grow(job, tokens))
                left -= tokens
        while self.waiting and not self.preempted:
            job = self.waiting[0]
            tokens = min(job.missing, left)
            if len(self.running) == self.slots:
                return self.stop(chunks, job, "slots")
            if not tokens:
                return self.stop(chunks, job, "token budget")
            if self.need(job, tokens) > len(self.free):
                return self.stop(chunks, job, f"blocks: needs {self.need(job, tokens)}, free {len(self.free)}")
            job.slot = min(set(range(self.slots)) - {other.slot for other in self.running})
            self.running.append(self.waiting.pop(0))
            self.admitted.append(job.request.request_id)
            chunks.append(self.grow(job, tokens))
            left -= tokens
        return chunks

    def stop(self, chunks: list[Chunk], job: Job, reason: str) -> list[Chunk]:
        self.say(job, reason)
        return chunks

    def grow(self, job: Job, tokens: int) -> Chunk:
        blocks = [self.free.pop() for _ in range(self.need(job, tokens))]
        if blocks:
            self.give(job, blocks)
        return self.chunk(job, tokens)

    def preempt(self, job: Job) -> None:
        self.running.remove(job)
        self.free += self.take(job)
        job.computed = 0
        self.waiting.insert(0, job)
        self.preempted.append(job.request.request_id)

    def update(self, chunks: list[Chunk]) -> list[RequestOutput]:
        jobs, outputs = {job.request.request_id: job for job in self.running}, []
        for chunk in chunks:
            job = jobs[chunk.request_id]
            job.computed = chunk.end
            if not chunk.sample:
                continue
            token = hash((chunk.request_id, job.request.num_output_tokens)) % 997 if self.text else chunk.end % 997
            job.request.output_token_ids.append(token)
            done = job.request.num_output_tokens == job.length
            outputs.append(RequestOutput(chunk.request_id, (token,), FinishReason.STOP if done else None))
            if done:
                self.running.remove(job)
                self.free += self.take(job)
        return outputs


class Static(Simulation):
    """A full batch, padded, run to its last row's end; a giant block a slot."""

    def __init__(self, jobs: list[Job], *, slots: int, max_model_len: int = 256, **more: Any) -> None:
        meta = {
            "scheduler": "StaticBatching",
            "pieces": {"schedule": "yours", "pad_batch": "yours", "kv manager": "reference"},
            "max_num_seqs": slots, "block_size": max_model_len, "num_blocks": slots, "max_model_len": max_model_len,
            "max_num_batched_tokens": None,
        }  # fmt: skip
        super().__init__(jobs, meta, **more)
        self.slots = slots

    def plan(self) -> list[Chunk]:
        if self.running:
            if self.waiting:
                self.say(self.waiting[0], "batch is running")
            return [self.chunk(job, job.missing) if self.active(job) else self.chunk(job, 0, 1) for job in self.running]
        if len(self.waiting) < self.slots and self.pending:
            return []
        self.running, self.waiting = self.waiting[: self.slots], self.waiting[self.slots :]
        width = max(job.missing for job in self.running)
        for slot, job in enumerate(self.running):
            job.slot = slot
            self.admitted.append(job.request.request_id)
            self.give(job, [slot])
        if self.waiting:
            self.say(self.waiting[0], "batch is running")
        return [self.chunk(job, job.missing, width - job.missing) for job in self.running]

    @staticmethod
    def active(job: Job) -> bool:
        return job.request.num_output_tokens < job.length

    def update(self, chunks: list[Chunk]) -> list[RequestOutput]:
        for job, chunk in zip(self.running, chunks, strict=True):
            if chunk.sample:
                job.computed = chunk.end
                job.request.output_token_ids.append((chunk.end * 7 + chunk.slot) % 997)
        if any(self.active(job) for job in self.running):
            return []
        done, self.running = self.running, []
        for job in done:
            self.take(job)
        requests = [job.request for job in done]
        return [RequestOutput(r.request_id, tuple(r.output_token_ids), FinishReason.LENGTH) for r in requests]


def continuous_trace(count: int = 24, *, slots: int = 8, budget: int = 64, blocks: int = 96, block_size: int = 16,
                     seed: int = 1, prompt: tuple[int, int] = (10, 90), output: tuple[int, int] = (8, 70),
                     gap: float = 0.02, **more: Any) -> Trace:  # fmt: skip
    jobs = make_jobs(count, seed=seed, prompt=prompt, output=output, gap=gap)
    return Continuous(jobs, slots=slots, budget=budget, blocks=blocks, block_size=block_size, **more).run()


def static_trace(count: int = 22, *, slots: int = 8, seed: int = 1, prompt: tuple[int, int] = (4, 60),
                 output: tuple[int, int] = (6, 60), gap: float = 0.0, **more: Any) -> Trace:  # fmt: skip
    return Static(make_jobs(count, seed=seed, prompt=prompt, output=output, gap=gap), slots=slots, **more).run()


@cache
def huge_trace(steps: int = 2000) -> Trace:
    """2,000 steps, 64 slots, 4,096 blocks."""
    return continuous_trace(400, slots=64, budget=2048, blocks=4096, block_size=16, prompt=(50, 1100),
                            output=(100, 800), gap=0.1, seed=7, max_steps=steps)  # fmt: skip
