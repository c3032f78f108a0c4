"""Exercises 0.2 and 0.3: bytes of KV cache, arithmetic intensity."""

from __future__ import annotations

from lablib.course.spec import Case, Exercise, WrongAnswer

SMOL = (30, 3, 64, 2)
LLAMA = (32, 8, 128, 2)

KV_BYTES = Exercise(
    key="0.2",
    title="Bytes of KV cache per token",
    reference="lablib.roofline:kv_bytes_per_token",
    cases=(
        Case("one layer, one head, one element", args=(1, 1, 1, 1), expect=2, hint="A key *and* a value."),
        Case("each number counts", args=(2, 3, 5, 7), expect=420),
        Case("SmolLM2-135M in bf16", args=SMOL, expect=23_040),
        Case("SmolLM2-135M in float32", args=(30, 3, 64, 4), expect=46_080),
        Case("Llama-3-8B in bf16", args=LLAMA, expect=131_072),
    ),
    hints=(
        "What is stored for one token, in one layer, for one KV head?",
        "Two vectors (a key, a value) of `head_dim` elements, in every layer, for every KV head.",
        "`2 * num_layers * num_kv_heads * head_dim * bytes_per_element`.",
    ),
    wrong=(
        WrongAnswer(
            "takes every element for two bytes",
            lambda num_layers, num_kv_heads, head_dim, bytes_per_element: 4 * num_layers * num_kv_heads * head_dim,
            says="You took 2 bytes for an element, whatever `bytes_per_element` says.",
        ),
        WrongAnswer(
            "forgets that there are keys and values",
            lambda num_layers, num_kv_heads, head_dim, bytes_per_element: (
                num_layers * num_kv_heads * head_dim * bytes_per_element
            ),
            says="Half of it: the cache holds a key *and* a value for every token.",
        ),
        WrongAnswer(
            "counts elements, not bytes",
            lambda num_layers, num_kv_heads, head_dim, bytes_per_element: 2 * num_layers * num_kv_heads * head_dim,
            says="Those are elements; each takes `bytes_per_element` bytes.",
        ),
        WrongAnswer(
            "counts one layer",
            lambda num_layers, num_kv_heads, head_dim, bytes_per_element: (
                2 * num_kv_heads * head_dim * bytes_per_element
            ),
            says="Every layer has keys and values of its own.",
        ),
    ),
    difficulty=1,
    minutes=4,
)

INTENSITY = Exercise(
    key="0.3",
    title="Arithmetic intensity of a step",
    reference="lablib.roofline:step_intensity",
    cases=(
        Case("one token, nothing cached", args=(1_000, 1, 0, 2), expect=1.0),
        Case("eight tokens share the weights", args=(1_000, 8, 0, 2), expect=8.0),
        Case("float32 weights are twice as long", args=(1_000, 8, 0, 4), expect=4.0),
        Case("the K/V that is read counts too", args=(1_000, 8, 6_000, 2), expect=2.0),
        Case("SmolLM2-135M, batch 8, context 128", args=(134_479_872, 8, 8 * 128 * 23_040, 2)),
    ),
    hints=(
        "Intensity is a fraction: operations above, bytes read below. Which of the two grows with `num_tokens`?",
        "Operations: 2 for each weight and token. Bytes: every weight once, however many tokens share it, and the K/V.",
        "`2 * num_weights * num_tokens / (num_weights * bytes_per_weight + kv_bytes_read)`.",
    ),
    wrong=(
        WrongAnswer(
            "counts a multiply-add as one operation",
            lambda num_weights, num_tokens, kv_bytes_read, bytes_per_weight: (
                num_weights * num_tokens / (num_weights * bytes_per_weight + kv_bytes_read)
            ),
            says="A multiplication and an addition for each weight and token: that is two operations.",
        ),
        WrongAnswer(
            "reads the weights once a token",
            lambda num_weights, num_tokens, kv_bytes_read, bytes_per_weight: (
                2 * num_weights * num_tokens / (num_weights * num_tokens * bytes_per_weight + kv_bytes_read)
            ),
            says="The weights are read once a *step*, not once a token: that is why batching pays.",
            case="eight tokens share the weights",
        ),
        WrongAnswer(
            "leaves the K/V out",
            lambda num_weights, num_tokens, kv_bytes_read, bytes_per_weight: 2 * num_tokens / bytes_per_weight,
            says="The step also reads the K/V of all earlier tokens: add `kv_bytes_read` to the bytes.",
            case="the K/V that is read counts too",
        ),
        WrongAnswer(
            "multiplies the K/V by the tokens once more",
            lambda num_weights, num_tokens, kv_bytes_read, bytes_per_weight: (
                2 * num_weights * num_tokens / (num_weights * bytes_per_weight + num_tokens * kv_bytes_read)
            ),
            says="`kv_bytes_read` is what the whole step reads, for all its rows: add it once.",
            case="the K/V that is read counts too",
        ),
        WrongAnswer(
            "upside down",
            lambda num_weights, num_tokens, kv_bytes_read, bytes_per_weight: (
                (num_weights * bytes_per_weight + kv_bytes_read) / (2 * num_weights * num_tokens)
            ),
            says="That is bytes per operation; the field counts operations per byte.",
        ),
    ),
    difficulty=1,
    minutes=5,
)
