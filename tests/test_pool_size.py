"""An executor that is told no number of blocks takes what the device's memory leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from lablib import host_memory
from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.executor.sizing import HOST_CACHE_BYTES, CudaMemory, HostMemory, StepLimits, weight_bytes
from lablib.kvcache import KVCacheManager
from lablib.memory import PoolSizeError
from lablib.model import LanguageModel, load_model, toy_model
from lablib.request import SamplingParams
from lablib.scheduler import IterationScheduler
from lablib.step import StepPlan, StepResult

LIMITS = {"max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 32}


@dataclass
class FakeGpu:
    """A device of so many bytes, of which some are in use, that counts a fixed peak."""

    size: int = 2_000_000
    used: int = 700_000
    peak: int = 100_000
    events: list[str] = field(default_factory=list)

    def total(self) -> int:
        return self.size

    def in_use(self) -> int:
        self.events.append("asked")
        return self.used

    def peak_of(self, run: Callable[[], object]) -> int:
        run()
        self.events.append("ran")
        return self.peak


class Remembering(ModelExecutor):
    """Keeps the plans that it is given."""

    def execute(self, plan: StepPlan) -> StepResult:
        self.plans = [*getattr(self, "plans", []), plan]
        return super().execute(plan)


def test_the_largest_steps_run_before_the_memory_is_asked() -> None:
    gpu = FakeGpu()
    executor = Remembering(toy_model(), None, 8, gpu_memory_utilization=0.9, device_memory=gpu, **LIMITS)
    prompts, decodes = executor.plans
    assert (prompts.num_tokens, len(prompts.chunks)) == (64, 4)
    assert all(chunk.sample for chunk in prompts.chunks)
    assert [(len(chunk.token_ids), chunk.end) for chunk in decodes.chunks] == [(1, 32)] * 4
    assert gpu.events == ["ran", "asked"]


def test_tokens_that_the_rows_can_not_share_evenly_are_all_in_the_largest_step() -> None:
    for tokens, rows, longest, largest in ((67, 4, 32, 67), (9, 9, 32, 9), (1000, 4, 32, 128)):
        chunks = StepLimits(tokens, rows, longest).largest(block_size=5)[0].chunks
        assert sum(len(chunk.token_ids) for chunk in chunks) == largest
        assert len(chunks) == rows
        assert max(chunk.end for chunk in chunks) <= longest


def test_the_pool_takes_what_the_others_leave_and_no_block_more() -> None:
    gpu = FakeGpu()
    executor = ModelExecutor(toy_model(), None, 8, gpu_memory_utilization=0.9, device_memory=gpu, **LIMITS)
    block = 8 * 2 * 2 * 2 * 8 * 8  # tokens, K and V, layers, KV heads, elements, bytes of float64
    room = int(0.9 * gpu.size) - (gpu.used - block) - gpu.peak  # the block that the largest step used goes again
    assert executor.num_blocks == room // block
    assert executor.memory is not None
    assert executor.memory.num_blocks == executor.num_blocks
    assert sum(part.num_bytes for part in executor.memory.parts.values()) == gpu.size
    assert executor.memory.weights.num_bytes + executor.memory.other.num_bytes + block == gpu.used
    scratch_row = block // 8
    cache = executor.model.backend.cache  # type: ignore[attr-defined]
    assert executor.memory.parts["KV cache"].num_bytes == cache.nbytes - scratch_row


def test_a_larger_share_means_a_larger_pool() -> None:
    sizes = [
        ModelExecutor(toy_model(), gpu_memory_utilization=share, device_memory=FakeGpu(), **LIMITS).num_blocks
        for share in (0.5, 0.7, 0.9, 1.0)
    ]
    assert sizes == sorted(set(sizes))


def test_a_sized_pool_serves_requests_as_one_of_a_given_size_does() -> None:
    prompts, sampling = [[5, 6, 7], list(range(20)), [9]], SamplingParams(max_tokens=9, ignore_eos=True)

    def answers(executor: ModelExecutor) -> list[tuple[int, ...]]:
        kv = KVCacheManager(executor.num_blocks, executor.block_size)
        engine = Engine(IterationScheduler(kv, 4, executor.max_model_len, 64), executor)
        return [completion.token_ids for completion in engine.generate(prompts, sampling)]

    sized = ModelExecutor(toy_model(), gpu_memory_utilization=0.9, device_memory=FakeGpu(), **LIMITS)
    assert answers(sized) == answers(ModelExecutor(toy_model(), num_blocks=8, block_size=32))


def test_an_executor_with_a_given_number_of_blocks_asks_nobody() -> None:
    gpu = FakeGpu()
    executor = ModelExecutor(toy_model(), 3, 8, device_memory=gpu)
    assert (executor.num_blocks, executor.block_size, executor.memory, gpu.events) == (3, 8, None, [])
    assert executor.max_model_len == 256


def test_a_device_that_others_have_filled_is_refused_with_the_numbers() -> None:
    with pytest.raises(PoolSizeError, match=r"other 1\.\d\d MB .*end what else uses the memory"):
        ModelExecutor(toy_model(), gpu_memory_utilization=0.9, device_memory=FakeGpu(used=1_790_000), **LIMITS)


def test_a_largest_step_that_runs_out_of_memory_is_refused_with_the_limits_to_lower() -> None:
    class Full(FakeGpu):
        def peak_of(self, run: Callable[[], object]) -> int:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(PoolSizeError, match=r"largest step ran out of memory.*64 tokens.*lower max_num_batched_tokens"):
        ModelExecutor(toy_model(), device_memory=Full(), **LIMITS)


def test_a_model_length_beyond_the_models_own_is_refused() -> None:
    with pytest.raises(ValueError, match="max_model_len=300 is not between 1 and the model's own limit of 256"):
        ModelExecutor(toy_model(), 4, 8, max_model_len=300)


def test_the_weights_counted_are_the_tensors_the_model_holds() -> None:
    model = toy_model(dtype=torch.float32)
    rotary = 2 * model.config.max_model_len * model.config.head_dim
    assert weight_bytes(model) == 4 * (model.config.num_parameters + rotary)


# CUDA


def test_what_cuda_counts_is_the_peak_over_what_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    counts = {"memory_allocated": 300, "max_memory_allocated": 700, "mem_get_info": (4000, 10_000)}
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", *counts):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: (calls.append(name), counts.get(name))[1])
    memory = CudaMemory(torch.device("cuda"))
    assert memory.peak_of(lambda: calls.append("run")) == 400
    run, peak = calls.index("run"), calls.index("max_memory_allocated")
    assert calls.index("reset_peak_memory_stats") < run < calls.index("synchronize", run) < peak
    assert calls.index("memory_allocated") < run
    calls.clear()
    assert (memory.in_use(), memory.total()) == (6000, 10_000)
    assert calls.index("empty_cache") < calls.index("mem_get_info"), "what PyTorch keeps is not in use"


@pytest.mark.gpu
@pytest.mark.parametrize("default_model", [False, pytest.param(True, marks=pytest.mark.model)])
def test_on_a_gpu_the_largest_steps_run_beside_the_pool_within_the_share(default_model: bool) -> None:
    model: LanguageModel = load_model(device="cuda") if default_model else toy_model(device="cuda")
    limits = {"max_num_batched_tokens": 2048, "max_num_seqs": 64, "max_model_len": 256}
    memory = CudaMemory(model.device)
    share = (memory.in_use() + 2e9) / memory.total()
    executor = ModelExecutor(model, gpu_memory_utilization=share, **limits)
    plan = executor.memory
    assert plan is not None
    assert sum(part.num_bytes for part in plan.parts.values()) == plan.memory == memory.total()
    assert plan.weights.num_bytes == weight_bytes(model)
    steps = StepLimits(**limits).largest(executor.block_size)
    assert memory.peak_of(lambda: [executor.execute(step) for step in steps]) <= 1.05 * plan.activations.num_bytes
    assert memory.in_use() <= 1.02 * plan.limit, "allocators round up"


# The CPU


@dataclass
class FakeHost(FakeGpu):
    """A machine that counts no peaks."""

    def peak_of(self, run: Callable[[], object]) -> None:  # type: ignore[override]
        return None


@pytest.mark.parametrize("free", [0.5e9, 1e9, 64e9])
def test_on_the_cpu_the_cache_stays_modest(free: float) -> None:
    host = FakeHost(size=int(32e9 + free), used=int(32e9))
    executor = ModelExecutor(toy_model(), device_memory=host, **LIMITS)
    assert executor.memory is not None
    cache = executor.memory.parts["KV cache"].num_bytes
    most = min(HOST_CACHE_BYTES, free / 2)
    assert 0.99 * most < cache <= most


def test_on_the_cpu_a_share_may_be_asked_for() -> None:
    host = FakeHost(size=int(4e9), used=int(1e9))
    executor = ModelExecutor(toy_model(), gpu_memory_utilization=0.5, device_memory=host, **LIMITS)
    assert executor.memory is not None
    assert executor.memory.parts["KV cache"].num_bytes == pytest.approx(1e9, rel=0.01)


def test_a_full_machine_is_refused() -> None:
    with pytest.raises(PoolSizeError, match="end what else uses the memory"):
        ModelExecutor(toy_model(), device_memory=FakeHost(size=int(8e9), used=int(8e9)), **LIMITS)


def test_this_machines_memory_is_asked_where_nobody_gives_one() -> None:
    executor = ModelExecutor(toy_model(), **LIMITS)
    assert executor.memory is not None
    assert executor.memory.memory == host_memory.total()
    assert executor.memory.parts["KV cache"].num_bytes <= HOST_CACHE_BYTES
    assert 0 < HostMemory().in_use() < HostMemory().total()
