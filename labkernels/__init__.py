"""The GPU kernels of the lab, imported as ``labkernels``; nothing here knows ``lablib``.

Read ``cache_write`` first (a load and a store), then ``paged_decode`` (walks a block table with an online softmax),
then ``paged_prefill`` (the same for many queries). Each file has the kernel, the function that launches it, its twin in
PyTorch, what it moves and computes, and the shapes it is tested on. The other files can wait.

What one must know of Triton to read them:

- ``kernel[grid](…)`` starts one *program* for each cell of the grid; ``tl.program_id(i)`` tells a program its cell.
  Programs share nothing, and run in any order.
- A tensor argument arrives as a pointer to its first element. Pointer plus array is an array of addresses, counted in
  elements.
- ``tl.arange``, ``tl.load`` and ``tl.zeros`` make the small arrays of one program; their sizes are powers of two.
- Where a ``mask`` is False nothing is touched; ``tl.load`` gives ``other`` there, or junk without one.
- Arguments in CAPITALS (``tl.constexpr``) are known when the kernel is compiled, and each value makes another kernel;
  an ``if`` on one is decided then. ``do_not_specialize`` names arguments that change from step to step, so that Triton
  does not compile anew when one happens to be 1 or divisible by 16.
- ``tl.dot`` multiplies matrices; ``input_precision="ieee"`` keeps float32 products whole, instead of rounding to TF32.

Without a GPU the kernels run in Triton's interpreter: slowly, with the same results up to rounding. ``python -m
labkernels report`` compiles them ahead of time for two generations of GPUs and says what became of them.
"""

from .cache_write import cache_write, cache_write_torch
from .paged_decode import paged_decode, paged_decode_torch
from .paged_prefill import paged_prefill, paged_prefill_torch

__all__ = [
    "cache_write",
    "cache_write_torch",
    "paged_decode",
    "paged_decode_torch",
    "paged_prefill",
    "paged_prefill_torch",
]
