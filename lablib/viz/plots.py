"""Pictures of measurements and models, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lablib.roofline import MACHINES, MODELS, kv_bytes_per_token, step_intensity
from lablib.viz.figures import BLUE, GREEN, GRID, INK, ORANGE, RED, SKY, Picture, new_figure, png


def roofline(
    flops: float,
    bandwidth: float,
    points: Mapping[str, tuple[float, float]],
    title: str,
    alt: str,
) -> Picture:
    """Draw what a machine can do at each arithmetic intensity, and what some steps do.

    Args:
        flops: best operations a second.
        bandwidth: best bytes a second.
        points: label → (intensity in operations per byte, operations a second).
        title: above the picture.
        alt: what it shows, in a sentence.
    """
    figure, axes = new_figure(7.2, 4.2)
    balance = flops / bandwidth
    largest = max([balance * 8, *(intensity * 2 for intensity, _ in points.values())])
    x = np.geomspace(0.5, largest, 200)
    axes.plot(x, np.minimum(flops, x * bandwidth) / 1e9, color=INK, linewidth=1.8)
    axes.axvline(balance, color=INK, linewidth=0.8, linestyle=(0, (4, 4)))
    axes.annotate(f"balance: {balance:.0f} FLOP per byte", (balance, flops / 1e9), (4, 8), textcoords="offset points")
    axes.annotate("waits for memory", (0.6, flops / 1e9), color=BLUE, va="top")
    axes.annotate("busy computing", (balance * 1.3, bandwidth * 0.7 / 1e9), color=RED)
    for label, (intensity, rate) in points.items():
        decode = label.isdigit()
        axes.plot(intensity, rate / 1e9, "o" if decode else "s", color=ORANGE if decode else GREEN, markersize=7)
        axes.annotate(label, (intensity, rate / 1e9), (6, -12), textcoords="offset points", fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP per byte read)", ylabel="GFLOP/s")
    axes.set_ylim(bandwidth * 0.25 / 1e9, flops * 2.2 / 1e9)
    axes.set_title(title, loc="left", fontsize=11)
    return Picture(png(figure), alt)


def throughput(
    batch_sizes: Sequence[int], tokens_per_second: Sequence[float], milliseconds: Sequence[float], alt: str
) -> Picture:
    """Draw tokens per second, and the time of a step, against the batch size."""
    figure, axes = new_figure(7.2, 3.4)
    axes.plot(batch_sizes, tokens_per_second, "o-", color=BLUE)
    axes.plot(
        batch_sizes, [tokens_per_second[0] * b / batch_sizes[0] for b in batch_sizes], color=BLUE, linestyle=(0, (2, 3))
    )
    free = (batch_sizes[-2], tokens_per_second[0] * batch_sizes[-2])
    axes.annotate("if every further row were free", free, (-8, 0), textcoords="offset points", color=BLUE, ha="right")
    axes.set(xscale="log", yscale="log", xlabel="batch size (sequences decoded together)")
    axes.set_ylabel("tokens per second", color=BLUE)
    axes.set_xticks(batch_sizes, [str(b) for b in batch_sizes])
    axes.minorticks_off()
    right = axes.twinx()
    right.plot(batch_sizes, milliseconds, "s-", color=ORANGE)
    right.set_ylabel("milliseconds per step", color="#8A5A00")
    right.set_ylim(0, max(milliseconds) * 1.15)
    right.spines["top"].set_visible(False)
    return Picture(png(figure), alt)


def kv_calculator(model: str, gpu_gb: int, tokens_per_request: int, kv_bits: int) -> Picture:
    """Draw what fills a GPU's memory: weights in 16 bits, a box for each request, a tenth kept for the rest.

    Args:
        model: name in ``lablib.roofline.MODELS``.
        gpu_gb: memory of the card, in 10⁹ bytes.
        tokens_per_request: tokens reserved for each request.
        kv_bits: bits of one element of K or V.
    """
    shape = MODELS[model]
    weights, usable = shape.num_weights * 2 / 1e9, 0.9 * gpu_gb
    per_token = kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, 1) * kv_bits / 8
    request = per_token * tokens_per_request / 1e9
    fit = max(0, int((usable - weights) / request))
    figure, axes = new_figure(7.2, 2.3)
    axes.barh(0, min(weights, gpu_gb), color=SKY, edgecolor="white")
    axes.barh(0, fit * request, left=weights, color=GREEN, edgecolor="white")
    for i in range(fit if fit <= 60 else 0):
        axes.barh(0, request, left=weights + i * request, color=GREEN, edgecolor="white", linewidth=0.8)
    axes.barh(0, 0.1 * gpu_gb, left=usable, color=GRID, hatch="///", edgecolor="white")
    axes.axvline(gpu_gb, color=INK, linewidth=1)
    axes.set(xlim=(0, max(gpu_gb, weights) * 1.02), ylim=(-0.75, 0.75), yticks=[], xlabel="GB")
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    verdict = f"{fit:,} requests of {tokens_per_request:,} tokens fit" if fit else "not one request fits"
    if weights > usable:
        verdict = f"the weights alone need {weights:,.1f} GB: they do not fit"
    axes.set_title(f"{model} on {gpu_gb} GB: {verdict}", loc="left", fontsize=11)
    axes.text(0, -0.7, "weights", color="#1F6A94", va="bottom")
    axes.text(usable, -0.7, "kept free", color=INK, va="bottom", ha="center")
    if fit:
        label = f"KV cache: {request * 1e3:,.1f} MB a request"
        axes.text(weights + fit * request / 2, 0.72, label, color="#00694D", va="top", ha="center")
    return Picture(png(figure), f"{model} on {gpu_gb} GB: weights {weights:,.1f} GB; {verdict}.")


def paper_roofline(machine: str, batch_size: int, context_len: int, model: str = "Llama-3-8B") -> Picture:
    """Draw where a decode step of a model lies on a machine's roofline: a model of the machine, not a measurement.

    Args:
        machine: name in ``lablib.roofline.MACHINES``.
        batch_size: sequences that decode one token each.
        context_len: tokens that each of them has in the KV cache.
        model: name in ``lablib.roofline.MODELS``.
    """
    shape, limits = MODELS[model], MACHINES[machine]
    kv = batch_size * context_len * kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, 2)
    intensity = step_intensity(shape.num_weights, batch_size, kv, 2)
    rate = limits.attainable(intensity)
    seconds = 2 * shape.num_weights * batch_size / rate
    result = f"{1e3 * seconds:,.1f} ms a step, {batch_size / seconds:,.0f} tokens/s"
    title = f"{model}, decode on {machine}, batch {batch_size}, context {context_len:,}: {result}"
    alt = f"{title} (a model, not a measurement): {intensity:.1f} operations per byte, balance {limits.balance:.0f}."
    return roofline(limits.flops, limits.bandwidth, {str(batch_size): (intensity, rate)}, title, alt)
