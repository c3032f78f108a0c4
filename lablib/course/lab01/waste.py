"""Exercise 1.3: where the positions went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer

Shape = tuple[int, int]  # prompt tokens, output tokens


def _trace(batch_size: int, shapes: Sequence[Shape]) -> Callable[[], tuple[Any]]:
    """Makes the trace of a static run of these requests."""

    def make() -> tuple[Any]:
        from lablib.engine import Engine
        from lablib.executor import SimulatedExecutor
        from lablib.request import Request, SamplingParams
        from lablib.scheduler import StaticBatching

        requests = [
            Request(f"r{i}", [1] * prompt, SamplingParams(max_tokens=output, ignore_eos=True))
            for i, (prompt, output) in enumerate(shapes)
        ]
        return (Engine(StaticBatching(batch_size, 64), SimulatedExecutor()).run(requests),)

    return make


def _case(name: str, batch_size: int, shapes: Sequence[Shape], hint: str = "") -> Case:
    listed = ", ".join(f"{prompt}+{output}" for prompt, output in shapes)
    given = f"the trace of batches of {batch_size}; requests (prompt+output tokens): {listed}"
    return Case(name, args=_trace(batch_size, shapes), given=given, hint=hint)


def _columns(trace: Any) -> tuple[Any, Any, int]:
    chunks = trace.chunks()
    return chunks["tokens"], chunks["padding"], trace.meta["max_num_seqs"] * trace.num_steps


def _waste(useful: Any, padding: Any, straggler: Any, idle: Any) -> Any:
    from lablib.metrics import Waste

    return Waste(int(useful), int(padding), int(straggler), int(idle))


def _all_padding_is_padding(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    return _waste(tokens.sum(), padding.sum(), 0, places - len(tokens))


def _straggler_everywhere(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    return _waste(tokens.sum(), 0, padding.sum(), places - len(tokens))


def _stragglers_are_idle(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    done = tokens == 0
    return _waste(tokens.sum(), padding[~done].sum(), padding[done].sum(), places - (~done).sum())


def _idle_is_forgotten(trace: Any) -> Any:
    tokens, padding, _ = _columns(trace)
    done = tokens == 0
    return _waste(tokens.sum(), padding[~done].sum(), padding[done].sum(), 0)


def _counts_chunks(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    done = tokens == 0
    return _waste((~done).sum(), padding[~done].sum(), done.sum(), places - len(tokens))


def _idle_counts_tokens(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    done = tokens == 0
    return _waste(tokens.sum(), padding[~done].sum(), padding[done].sum(), places - tokens.sum())


def _straggler_counted_twice(trace: Any) -> Any:
    tokens, padding, places = _columns(trace)
    return _waste(tokens.sum(), padding.sum(), padding[tokens == 0].sum(), places - len(tokens))


WASTE = Exercise(
    key="1.3",
    title="Account for the waste",
    reference="lablib.metrics.work:waste",
    cases=(
        _case("one request wastes nothing", 1, [(3, 2)]),
        _case("a shorter prompt: padding", 2, [(5, 1), (2, 1)]),
        _case("a shorter answer: stragglers", 2, [(3, 4), (3, 1)]),
        _case(
            "an empty slot: idle",
            2,
            [(3, 3)],
            hint="Slots × steps are all the places there were; those without a chunk are idle.",
        ),
        _case("all at once", 3, [(5, 4), (2, 1), (3, 7), (1, 2), (6, 3)]),
    ),
    hints=(
        "Every row of `trace.chunks()` is one chunk of one step. Which column tells a finished row from the others?",
        "A finished row has `tokens == 0`: its padding is straggler waste, all other padding is padding. "
        "Idle: slots × steps minus the number of chunks.",
        '`done = chunks["tokens"] == 0`; useful is `chunks["tokens"].sum()`, padding `chunks["padding"][~done].sum()`, '
        'straggler `chunks["padding"][done].sum()`, idle `trace.meta["max_num_seqs"] * trace.num_steps - len(done)`; '
        "each as `int(…)`.",
    ),
    wrong=(
        WrongAnswer(
            "takes tokens from places",
            _idle_counts_tokens,
            says="You subtracted tokens from places; a prompt of many tokens fills *one* place. Subtract the number of chunks.",
            case="one request wastes nothing",
        ),
        WrongAnswer(
            "counts straggler padding twice",
            _straggler_counted_twice,
            says="The padding of finished rows is in both numbers: count it as straggler only.",
            case="a shorter answer: stragglers",
        ),
        WrongAnswer(
            "calls all of it padding",
            _all_padding_is_padding,
            says="Padding beside a prompt and padding in a finished row are two wastes with two cures: tell them "
            "apart by `tokens == 0`.",
            case="a shorter answer: stragglers",
        ),
        WrongAnswer(
            "calls all of it straggler",
            _straggler_everywhere,
            says="Padding beside real tokens made prompts equally long: nobody was finished there.",
            case="a shorter prompt: padding",
        ),
        WrongAnswer(
            "counts finished rows as idle",
            _stragglers_are_idle,
            says="A finished row is not idle: it computes a position in every step. Idle is a slot without any chunk.",
            case="a shorter answer: stragglers",
        ),
        WrongAnswer(
            "forgets idle slots",
            _idle_is_forgotten,
            says="In a short last batch some slots hold nobody at all: those places are idle.",
            case="an empty slot: idle",
        ),
        WrongAnswer(
            "counts chunks instead of positions",
            _counts_chunks,
            says="A prompt is one chunk but many positions: add up `tokens`, don't count rows.",
            case="one request wastes nothing",
        ),
    ),
    difficulty=2,
    minutes=10,
)
