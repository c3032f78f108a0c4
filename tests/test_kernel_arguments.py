"""What the kernels refuse, by name, instead of reading junk: shapes, dtypes, and tables that lead out of the cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from labkernels import cache_write, paged_decode, paged_prefill
from labkernels.runtime import INTERPRETED

pytest.importorskip("triton", reason="the kernels need Triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
only_interpreted = pytest.mark.skipif(not INTERPRETED, reason="on a GPU looking would make the host wait")


def arguments(**changes: Any) -> dict[str, Any]:
    """Two sequences of 5 and 9 tokens in blocks of 4, in a cache of 6 blocks and a scratch slot."""
    cache = torch.randn(25, 2, 2, 16, device=DEVICE)
    return {
        "q": torch.randn(2, 4, 16, device=DEVICE),
        "k_cache": cache[:, 0],
        "v_cache": cache[:, 1],
        "block_tables": torch.tensor([[5, 0, -7], [1, 2, 3]], dtype=torch.int32, device=DEVICE),
        "context_lens": torch.tensor([5, 9], dtype=torch.int32, device=DEVICE),
        "block_size": 4,
    } | changes


def chunks() -> dict[str, Any]:
    one_each = torch.tensor([1, 1], device=DEVICE)
    return {
        "query_rows": torch.tensor([0, 1], device=DEVICE),
        "query_lens": one_each,
        "starts": one_each,
        "max_query_len": 1,
    }


def on_device(values: list[Any]) -> torch.Tensor:
    return torch.tensor(values, device=DEVICE)


REFUSED = {
    "two dtypes": (
        {"q": torch.randn(2, 4, 16, device=DEVICE).half()},
        TypeError,
        r"q is torch\.float16, the cache torch\.float32",
    ),
    "heads": ({"q": torch.randn(2, 3, 16, device=DEVICE)}, ValueError, r"\(2, 3, 16\).*a whole number of query heads"),
    "head_dim": ({"q": torch.randn(2, 4, 32, device=DEVICE)}, ValueError, r"q \(2, 4, 32\).*cache of 2 × 16"),
    "rows": ({"context_lens": on_device([5, 9, 1])}, ValueError, "3 context lengths with block tables"),
    "strides": ({"k_cache": torch.randn(25, 16, 2, device=DEVICE).mT}, ValueError, "same shape and strides"),
    "out": (
        {"out": torch.empty(3, 4, 16, device=DEVICE)},
        ValueError,
        r"out \(3, 4, 16\) must be contiguous.*\(2, 4, 16\)",
    ),
}
OUT_OF_THE_CACHE = {
    "no such block": ({"block_tables": on_device([[6, 0, 0], [1, 2, 3]])}, "names blocks 0 to 6.* has 6 blocks of 4"),
    "negative": ({"block_tables": on_device([[5, -1, 0], [1, 2, 3]])}, "names blocks -1 to 5"),
    "table too short": ({"context_lens": on_device([5, 13])}, "13 tokens fills 4 blocks of 4, the block tables have 3"),
    "no context": ({"context_lens": on_device([0, 9])}, "at least to its own token"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_attention_refuses_what_it_would_misread(what: str) -> None:
    changes, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        paged_decode(**arguments(**changes))
    with pytest.raises(error, match=message):
        paged_prefill(**arguments(**changes), **chunks())


@only_interpreted
@pytest.mark.parametrize("what", OUT_OF_THE_CACHE)
def test_attention_refuses_block_tables_that_lead_out_of_the_cache(what: str) -> None:
    changes, message = OUT_OF_THE_CACHE[what]
    with pytest.raises(ValueError, match=message):
        paged_decode(**arguments(**changes))
    with pytest.raises(ValueError, match=message):
        paged_prefill(**arguments(**changes), **chunks())


def test_what_stands_behind_a_context_in_its_block_table_is_neither_read_nor_judged() -> None:
    assert paged_decode(**arguments()).isfinite().all()


def test_a_head_dimension_that_is_no_power_of_two_is_refused_with_the_limit() -> None:
    cache = torch.randn(25, 2, 2, 24, device=DEVICE)
    q = torch.randn(2, 4, 24, device=DEVICE)
    with pytest.raises(ValueError, match="head_dim is 24: the kernels need a power of two, at least 16"):
        paged_decode(**arguments(q=q, k_cache=cache[:, 0], v_cache=cache[:, 1]))


def test_more_query_heads_a_kv_head_than_a_program_has_rows_are_served() -> None:
    q = torch.randn(2, 2 * 140, 16, device=DEVICE)
    args = arguments(q=q)
    where = chunks() | {"starts": args["context_lens"] - 1}
    assert torch.allclose(paged_prefill(**args, **where), paged_decode(**args), atol=1e-5)


def test_a_step_without_sequences_or_tokens_does_nothing() -> None:
    nobody = torch.zeros(0, dtype=torch.int32, device=DEVICE)
    changes = {"q": torch.randn(0, 4, 16, device=DEVICE), "context_lens": nobody, "block_tables": nobody.view(0, 1)}
    assert paged_decode(**arguments(**changes)).shape == (0, 4, 16)
    where = {"query_rows": nobody, "query_lens": nobody, "starts": nobody, "max_query_len": 0}
    assert paged_prefill(**arguments(**changes), **where).shape == (0, 4, 16)
    args = arguments()
    cache_write(changes["q"][:, :2], changes["q"][:, :2], args["k_cache"], args["v_cache"], nobody)


@pytest.mark.parametrize(
    ("k", "slots", "error", "message"),
    [
        (torch.randn(2, 2, 16).half(), [0, 1], TypeError, r"k is torch\.float16 and v torch\.float16, the cache torch"),
        (torch.randn(2, 3, 16), [0, 1], ValueError, r"k \(2, 3, 16\).*don't fit a cache of \(25, 2, 16\)"),
        (torch.randn(2, 2, 16), [0, 1, 2], ValueError, r"a slot mapping \(3,\)"),
        (torch.randn(2, 16, 2).mT, [0, 1], ValueError, "side by side"),
        pytest.param(
            torch.randn(2, 2, 16), [0, 25], ValueError, "slots 0 to 25.*slots 0 to 24", marks=only_interpreted
        ),
        pytest.param(torch.randn(2, 2, 16), [-1, 3], ValueError, "slots -1 to 3", marks=only_interpreted),
    ],
)
def test_cache_write_refuses_what_it_would_misplace(
    k: torch.Tensor, slots: list[int], error: type[Exception], message: str
) -> None:
    args = arguments()
    k = k.to(DEVICE)
    with pytest.raises(error, match=message):
        cache_write(k, k, args["k_cache"], args["v_cache"], on_device(slots))
