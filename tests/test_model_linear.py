"""A packed linear layer computes what a plain one does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lablib.model import linear, load_model
from lablib.model.linear import Linear, Packing

SHAPES = [(1, 64, 96), (8, 576, 960), (33, 96, 64), (0, 64, 96)]  # tokens, in, out


def layer(
    dtype: torch.dtype, shape: tuple[int, int, int], bias: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(0)
    num_tokens, inputs, outputs = shape
    x = torch.randn(num_tokens, inputs, generator=generator).to(dtype)
    weight = (torch.randn(outputs, inputs, generator=generator) * inputs**-0.5).to(dtype)
    return x, weight, torch.randn(outputs, generator=generator).to(dtype) if bias else None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 0.04), (torch.float64, 0.0)])
def test_packed_or_not_it_is_f_linear(dtype: torch.dtype, atol: float, bias: bool, shape: tuple[int, int, int]) -> None:
    x, weight, b = layer(dtype, shape, bias)
    torch.testing.assert_close(Linear(weight, b)(x), F.linear(x, weight, b), rtol=0, atol=atol)


@pytest.fixture
def capability(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``capability("AVX2")``: as on a CPU that can do this and no more."""
    return lambda name: monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: name)


@pytest.mark.parametrize("packing", [linear.FBGEMM, *linear.ONEDNN.values()], ids=lambda packing: packing.name)
def test_without_the_packing_operators_it_is_f_linear(packing: Packing, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        raise AttributeError("this PyTorch has no such operator")

    none = {dtype: replace(packing, pack=missing) for dtype in linear.ONEDNN}
    monkeypatch.setattr(linear, "FBGEMM", replace(packing, pack=missing))
    monkeypatch.setattr(linear, "ONEDNN", none)
    x, weight, bias = layer(torch.float32, SHAPES[1], bias=True)
    plain = Linear(weight, bias)
    assert plain.packing is None
    assert torch.equal(plain(x), F.linear(x, weight, bias))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch comes without oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_packed_wherever_pytorch_comes_with_onednn(
    dtype: torch.dtype, capability: Callable[[str], None]
) -> None:
    """The fallback is right but slow: it must not be taken unnoticed because a private operator has changed."""
    capability("AVX512")
    _, weight, _ = layer(dtype, SHAPES[1], bias=False)
    packed = Linear(weight)
    if dtype == torch.float32 or linear._works(linear.ONEDNN[dtype], dtype):
        assert packed.packing == linear.ONEDNN[dtype]
        assert packed.weight.is_mkldnn
        assert packed.nbytes == weight.nbytes


def test_float64_is_never_packed() -> None:
    _, weight, _ = layer(torch.float64, SHAPES[1], bias=False)
    assert Linear(weight).packing is None


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="a CPU without FBGEMM")
class TestHalves:
    """Float32 weights kept in fp16 on a CPU without AVX-512, where nothing is lost by it."""

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("bias", [False, True])
    def test_they_give_what_float32_weights_give(
        self, shape: tuple[int, int, int], bias: bool, capability: Callable[[str], None]
    ) -> None:
        capability("AVX2")
        x, weight, b = layer(torch.float32, shape, bias)
        weight = weight.half().float()
        halves = Linear(weight, b)
        assert halves.packing == linear.FBGEMM
        assert halves.bytes_per_weight == 2
        assert halves.nbytes == 2 * weight.shape[0] * {64: 512, 96: 512, 576: 1024}[weight.shape[1]]
        expected = F.linear(x.double(), weight.double(), b.double() if b is not None else None)
        torch.testing.assert_close(halves(x).double(), expected, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("lost", [1e-8, 1e5, 1 + 2**-12])
    def test_a_weight_that_fp16_does_not_hold_stays_whole(self, lost: float, capability: Callable[[str], None]) -> None:
        capability("AVX2")
        weight = torch.eye(32)
        weight[3, 5] = lost
        whole = Linear(weight)
        assert whole.packing != linear.FBGEMM
        torch.testing.assert_close(whole(torch.eye(32)), weight.T, rtol=1e-7, atol=0)

    def test_the_default_model_loses_nothing(self, capability: Callable[[str], None]) -> None:
        capability("AVX2")
        model = load_model(dtype=torch.float32)
        assert {each.packing for each in model.decoder.linear_layers()} == {linear.FBGEMM}
        assert model.bytes_per_weight == 2

    def test_with_avx512_float32_stays_float32(self, capability: Callable[[str], None]) -> None:
        capability("AVX512")
        assert Linear(torch.eye(32)).packing != linear.FBGEMM
