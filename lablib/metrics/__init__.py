"""Numbers from a trace: where the work went, how long callers waited, how much came out.

Definitions follow vLLM's serving benchmark; ``queue`` and the times are seconds.

- TTFT: first token delivered − arrival. E2E: last token delivered − arrival. Queue: first scheduled − arrival.
- TPOT: (E2E − TTFT) / (n − 1) for an answer of n > 1 tokens.
- ITL: every gap between two deliveries of one request, pooled over all requests.
- Throughput: output tokens delivered / time from the first arrival to the end of the last step. Total throughput:
  prompt and output tokens of the requests that were served / the same time.
- Goodput: requests that meet every limit of an SLO / the same time.
- KV memory, in the words of the vLLM paper: token state (written), reserved (written later), internal fragmentation
  (allocated, never written), free.

Pooled ITL weighs long answers more; k tokens in one delivery make ITL k times larger and leave TPOT alone; a preemption
is one huge gap in ITL and a mild rise of TPOT. Closed-loop clients hide queueing.
"""

from lablib.metrics.goals import SLO, goodput, meets
from lablib.metrics.kv_memory import KVMemory, expected_residents, kv_memory
from lablib.metrics.latencies import inter_token_latencies, request_times, span
from lablib.metrics.tables import compare, request_table, step_table, summary
from lablib.metrics.work import Waste, preemptions, recomputed_tokens, slot_use, waste

__all__ = [
    "SLO",
    "KVMemory",
    "Waste",
    "compare",
    "expected_residents",
    "goodput",
    "inter_token_latencies",
    "kv_memory",
    "meets",
    "preemptions",
    "recomputed_tokens",
    "request_table",
    "request_times",
    "slot_use",
    "span",
    "step_table",
    "summary",
    "waste",
]
