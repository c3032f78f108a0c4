"""The block pool and the block tables keep their books."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.kvcache import BlockPool, KVCacheManager, OutOfBlocks


def test_freeing_a_block_twice_is_refused() -> None:
    pool = BlockPool(2)
    block = pool.allocate()
    pool.free(block)
    with pytest.raises(ValueError, match=f"block {block} is free already"):
        pool.free(block)


def test_a_shared_block_is_free_when_the_last_reference_is_gone() -> None:
    pool = BlockPool(1)
    block = pool.allocate()
    pool.share(block)
    pool.free(block)
    assert pool.num_free == 0
    pool.free(block)
    assert pool.num_free == 1


def test_an_empty_pool_says_how_large_it_is() -> None:
    pool = BlockPool(1)
    pool.allocate()
    with pytest.raises(IndexError, match="all 1 blocks are in use"):
        pool.allocate()


def test_a_block_id_outside_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no block -1"):
        BlockPool(3).free(-1)


def test_no_block_is_taken_when_too_few_are_free() -> None:
    kv = KVCacheManager(num_blocks=3, block_size=4)
    kv.grow("a", 5)
    with pytest.raises(OutOfBlocks, match=r"^request b needs 2 more blocks, 1 is free; make the pool larger"):
        kv.grow("b", 8)
    assert kv.pool.num_free == 1
    assert kv.block_table("b") == ()


@pytest.mark.parametrize(("num_tokens", "blocks"), [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_length_that_is_a_multiple_of_the_block_size_fills_its_last_block(num_tokens: int, blocks: int) -> None:
    assert KVCacheManager(num_blocks=8, block_size=4).blocks_for(num_tokens) == blocks


def test_a_table_keeps_its_blocks_while_it_grows() -> None:
    kv = KVCacheManager(num_blocks=8, block_size=4)
    first = kv.grow("a", 4)
    kv.grow("b", 4)
    assert kv.grow("a", 5)[:1] == first
    assert kv.grow("a", 2) == kv.block_table("a")


def test_a_table_that_is_long_enough_is_left_alone_and_nothing_is_told() -> None:
    kv = KVCacheManager(num_blocks=8, block_size=4)
    kv.grow("a", 8)
    assert kv.take_changes() == [("allocated", "a", (0, 1))]
    assert kv.grow("a", 8) == kv.grow("a", 5) == kv.grow("a", 0) == (0, 1)
    assert kv.take_changes() == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), max_size=60), st.integers(1, 8))
def test_free_plus_used_is_the_pool_and_no_block_has_two_owners(calls: list[tuple[str, int]], block_size: int) -> None:
    kv = KVCacheManager(num_blocks=10, block_size=block_size)
    owners: dict[str, list[int]] = {}
    for name, num_tokens in calls:
        if num_tokens == 0:
            kv.free(name)
        elif kv.can_fit(name, num_tokens):
            kv.grow(name, num_tokens)
        else:
            with pytest.raises(OutOfBlocks):
                kv.grow(name, num_tokens)
        held = [block for owner in "abcd" for block in kv.block_table(owner)]
        assert len(held) == len(set(held)) == kv.pool.num_used
        assert kv.pool.num_free + kv.pool.num_used == 10
        for kind, owner, blocks in kv.take_changes():  # the changes alone rebuild every table
            owners.setdefault(owner, [])
            owners[owner] = owners[owner] + list(blocks) if kind == "allocated" else []
        assert {name: tuple(blocks) for name, blocks in owners.items() if blocks} == {
            owner: kv.block_table(owner) for owner in "abcd" if kv.block_table(owner)
        }
