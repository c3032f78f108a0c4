"""The GPU kernels of the lab, imported as ``labkernels``; nothing here knows ``lablib``.

Read them in this order: ``cache_write`` (one load, one store), ``paged_decode`` (walks a block table with an online
softmax), ``paged_prefill`` (the same for many queries). Each file has the kernel, the function that launches it, its
twin in PyTorch, what it moves and computes, and the shapes it is tested on.

Without a GPU the kernels run in Triton's interpreter, slowly but exactly; ``python -m labkernels report`` compiles them
ahead of time for two generations of GPUs and says what became of them.
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
