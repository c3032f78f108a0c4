"""The KV cache as a scheduler sees it: block ids and block tables, no tensors."""

from lablib.kvcache.manager import KVCacheManager, OutOfBlocks
from lablib.kvcache.pool import BlockPool

__all__ = ["BlockPool", "KVCacheManager", "OutOfBlocks"]
