"""Runs that end early or hardly begin, for whatever has to show any trace there is."""

from __future__ import annotations

from synthetic_traces import continuous_trace, huge_trace, static_trace

from lablib.recorder import TraceRecorder
from lablib.request import FinishReason, Request, RequestOutput, SamplingParams
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import Trace

HOSTILE = "<img src=x onerror='window.hacked = 1'></script><script>window.hacked = 1</script>"


def one_step() -> Trace:
    """One request, one step that takes no time, no limit in the meta data."""
    recorder = TraceRecorder({"unknown": {"a": [1, None]}, "pieces": "none", "max_num_seqs": "many"})
    recorder.add_request(Request("only", [1, 2, 3], SamplingParams(max_tokens=1)))
    chunk = Chunk("only", 0, 0, (1, 2, 3), 0, (5,), SamplingParams(), 0, True)
    recorder.record_step(StepPlan((chunk,), admitted=("only",)), StepResult(((7,),), 0.0), 0.0, 0.0)
    recorder.record_outputs([RequestOutput("only", (7,), FinishReason.LENGTH)])
    return recorder.trace


def all_fates() -> Trace:
    """Refused, aborted while waiting, aborted while running, failed, interrupted; with hostile texts."""
    recorder = TraceRecorder({"workload": HOSTILE, "scheduler": HOSTILE, "block_size": 4, "pieces": {HOSTILE: HOSTILE}})
    requests = [Request(f"{HOSTILE}{i}", [1, 2, 3], SamplingParams(max_tokens=9)) for i in range(5)]
    recorder.refuse(requests[0], requests[0].request_id, f"too long {HOSTILE}", 0.0)
    for request in requests[1:]:
        recorder.add_request(request)
    recorder.record_blocks(
        [("allocated", requests[2].request_id, (0, 1)), ("allocated", requests[3].request_id, (1, 3))]
    )
    for step in range(3):
        recorder.record_plan(StepPlan(waits={requests[1].request_id: f"blocks: {HOSTILE}"}))
        chunks = tuple(
            Chunk(
                r.request_id, slot, 2 + step if step else 0, (1,) if step else (1, 2, 3), 0, (), r.sampling, step, True
            )
            for slot, r in enumerate(requests[2:])
        )
        plan = StepPlan(chunks, admitted=tuple(r.request_id for r in requests[2:]) if step == 0 else ())
        recorder.record_step(plan, StepResult(((9,),) * 3, 0.1), step / 10, step / 10 + 0.1)
        recorder.record_outputs([RequestOutput(r.request_id, (9,)) for r in requests[2:]])
    recorder.record_outputs([RequestOutput(requests[1].request_id, (), FinishReason.ABORT)])
    recorder.record_outputs([RequestOutput(requests[2].request_id, (), FinishReason.ABORT)])
    recorder.record_outputs([RequestOutput(requests[3].request_id, (), FinishReason.ERROR, f"the device {HOSTILE}")])
    recorder.record_blocks([("freed", requests[2].request_id, (0, 1))])
    recorder.add_text(lambda ids: HOSTILE)
    return recorder.trace


def broken_books() -> Trace:
    """A block manager that frees more than it has given out, and goes on."""
    recorder = TraceRecorder({"max_num_seqs": 1, "num_blocks": 4, "block_size": 4})
    recorder.add_request(Request("only", [1, 2, 3], SamplingParams(max_tokens=1)))
    changes = [("allocated", (2, 0)), ("freed", (0, 2, 2)), ("allocated", (3,))]
    recorder.record_blocks([(kind, "only", blocks) for kind, blocks in changes])
    chunk = Chunk("only", 0, 0, (1, 2, 3), 0, (3,), SamplingParams(), 0, True)
    recorder.record_step(StepPlan((chunk,), admitted=("only",)), StepResult(((7,),), 0.0), 0.0, 0.1)
    return recorder.trace


def no_steps() -> Trace:
    """A request that came, and was still waiting when the run was stopped."""
    recorder = TraceRecorder({"scheduler": "StaticBatching", "max_num_seqs": 4, "num_blocks": 4, "block_size": 64})
    recorder.add_request(Request("early", [1], SamplingParams(max_tokens=1)))
    return recorder.trace


def preempting_trace() -> Trace:
    """A pool too small for what runs: requests lose their place and compute their tokens again."""
    return continuous_trace(14, budget=96, blocks=24, output=(20, 90), text=True)


TRACES = {
    "nothing": lambda: [Trace()],
    "no steps": lambda: [no_steps()],
    "one step": lambda: [one_step()],
    "broken books": lambda: [broken_books()],
    "all fates": lambda: [all_fates()],
    "interrupted": lambda: [continuous_trace(max_steps=40)],
    "static": lambda: [static_trace(text=True)],
    "chunked": lambda: [continuous_trace(text=True)],
    "preempting": lambda: [preempting_trace()],
    "wide": lambda: [static_trace(150, slots=64)],
    "huge": lambda: [huge_trace()],
    "two": lambda: [static_trace(text=True), continuous_trace(22, prompt=(4, 60), output=(6, 60), gap=0.0, text=True)],
    "three": lambda: [static_trace(), all_fates(), Trace()],
}
