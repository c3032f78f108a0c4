"""A small LLM inference engine to learn from: batching, paged KV cache, scheduling, one mechanism a file."""

__version__ = "0.1.0"
