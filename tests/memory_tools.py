"""What the memory tests measure with: tensors that are alive, and the size of a process."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AliveTensors(TorchDispatchMode):
    """Counts the bytes of all storages that operators make, and remembers the most that were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = operator(*args, **(kwargs or {}))
        given = {key for key, _ in _storages((args, kwargs))}
        for key, storage in _storages(out):
            if key not in given and key not in self.alive:
                self.alive[key] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, key, None)
        self.peak = max(self.peak, sum(self.alive.values()))
        return out


def _storages(values: Any) -> list[tuple[int, torch.UntypedStorage]]:
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor) and not leaf.is_mkldnn]
    return [(tensor.untyped_storage()._cdata, tensor.untyped_storage()) for tensor in tensors]


def peak_of_tensors(run: Callable[[], object]) -> int:
    """Most bytes of new tensors that were alive at once while ``run`` ran."""
    counter = AliveTensors()
    with counter:
        run()
    return counter.peak
