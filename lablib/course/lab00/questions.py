"""Questions of lab 00."""

from __future__ import annotations

from lablib.course.spec import Option, Question, Quiz, Watch, WrongValue

WATCH = (
    Watch(
        "0.computed",
        "A prompt of 100 tokens, 50 output tokens: how many tokens does the loop compute without a cache?",
        expect=6_225,
        wrong=(
            WrongValue(149, says="That is the loop with a cache: each of the first 149 tokens once."),
            WrongValue(150, says="The last output token is never fed; and without a cache every turn starts over."),
            WrongValue(5_000, says="You fed the prompt 50 times; the answer so far is fed with it."),
            WrongValue(6_275, says="The first turn feeds 100 tokens, not 101: 100 + 101 + … + 149."),
            WrongValue(7_500, says="The sequence has its full length only at the end: 100 + 101 + … + 149."),
        ),
        because="The turns feed 100, 101, … up to 149 tokens: 50 · 100 + (0 + 1 + … + 49) = 6,225. With a cache: 149.",
    ),
    Watch(
        "0.fit",
        "Llama-3-8B in bf16 (32 layers, 8 KV heads, head dimension 128). 10 GB (10 · 10⁹ bytes) are left for the KV "
        "cache, and each request reserves 2,048 tokens. How many requests fit?",
        expect=37,
        wrong=(
            WrongValue(38, says="37.25 requests fit; the 38th does not."),
            WrongValue(9, says="You counted 32 query heads; the cache holds the 8 KV heads."),
            WrongValue(74, says="Half of the cache is missing: keys *and* values."),
            WrongValue(lambda value: 37 < value < 38, says="A request fits whole or not at all."),
            WrongValue(18, says="That is float32; bf16 takes 2 bytes an element."),
            WrongValue(
                lambda value: value > 70_000, says="That many *tokens* fit; each request reserves 2,048 of them."
            ),
            WrongValue(40, says="10 GB were given as 10 · 10⁹ bytes, not 10 · 2³⁰."),
        ),
        because="131,072 bytes a token · 2,048 tokens = 268 MB a request; 10 · 10⁹ / 268,435,456 = 37.25.",
    ),
)

QUIZ = Quiz(
    questions=(
        Question(
            "Why does one decode step at batch 1 take as long as it does?",
            options=(
                Option(
                    "The matrix products need that many operations.",
                    says="At batch 1 a step does about 1 operation for each byte it reads; the machine can do many.",
                ),
                Option(
                    "Every weight must be read from memory once, however few tokens it serves.",
                    says="Yes. (On a CPU some fixed cost of many small operations comes on top, and batching shares that too.)",
                    right=True,
                ),
                Option(
                    "The attention over all earlier tokens is expensive.",
                    says="At a context of some hundred tokens the K/V are a few percent of what is read.",
                ),
            ),
        ),
        Question(
            "A friend computes KV bytes per token as 2 · layers · hidden_size · bytes. For SmolLM2-135M "
            "(hidden_size 576 = 9 query heads · 64) this is …",
            options=(
                Option(
                    "3 times too much",
                    says="Yes: 9 query heads share 3 KV heads, and only these are cached. (Llama-3-8B: 4 times.)",
                    right=True,
                ),
                Option("right", says="It would be, if every query head had a KV head of its own: here 9 share 3."),
                Option("half of it", says="The 2 for keys and values is there; look at the heads."),
            ),
        ),
        Question(
            "Does the KV cache change the text?",
            options=(
                Option(
                    "No: it stores what would be computed again.",
                    says="Yes. (In bf16, sums taken in another order can tip a near-tie; in exact arithmetic never.)",
                    right=True,
                ),
                Option(
                    "Yes, it is an approximation.",
                    says="Nothing is approximated: a token's K and V depend on earlier tokens only and never change.",
                ),
            ),
        ),
        Question(
            "You decode 64 requests together instead of 32. On which machine do you gain less?",
            options=(
                Option(
                    "On the H100: it is so fast already.",
                    says="An H100 can do about 300 operations for each byte read: at batch 64 it still waits.",
                ),
                Option(
                    "On two CPU cores: they are busy computing long before batch 64.",
                    says="Yes: their balance is near 20 operations per byte; beyond it, more tokens take more time.",
                    right=True,
                ),
                Option(
                    "The same on both: batching shares the weights.",
                    says="It shares the reading. Where computing is the limit already, nothing is left to share.",
                ),
            ),
        ),
        Question(
            "Does batching eight prompts of 512 tokens speed up their prefill eightfold?",
            options=(
                Option(
                    "Hardly: a long prompt keeps the machine busy all by itself.",
                    says="Yes: prefill is bound by computing, so eight prompts take about eight times as long.",
                    right=True,
                ),
                Option(
                    "Yes, the weights are read once instead of eight times.",
                    says="One prompt of 512 tokens already shares each weight among 512 tokens.",
                ),
            ),
        ),
    ),
)
