"""Blocks in memory, by hand."""

from __future__ import annotations

from latcast.kernels.memory_planners import Arena, Block, Step, alive_bytes, blocks_of, greedy_bytes, pattern_bytes

NOBODY: frozenset[str] = frozenset()


def chain(*sizes: int) -> list[Step]:
    """Steps of which each reads the result of the one before."""
    return [
        Step((f"t{index}",), {f"t{index + 1}": ((size,), size)}) for index, size in enumerate(sizes)
    ]  # fmt: skip


class TestGreedyBySize:
    def test_a_chain_needs_its_two_largest_neighbours(self) -> None:
        assert greedy_bytes(blocks_of(chain(64, 256, 128, 64), NOBODY)) == 384

    def test_a_block_goes_into_the_smallest_gap_that_fits(self) -> None:
        # 512 alone at first; beside it later 256 and 64; 128 fits where 256 was.
        blocks = [Block(512, 0, 3), Block(256, 0, 1), Block(128, 2, 3), Block(64, 1, 2)]

        assert greedy_bytes(blocks) == 512 + 256 + 64

    def test_sizes_are_rounded_up_to_the_alignment(self) -> None:
        assert greedy_bytes([Block(65, 0, 1), Block(1, 0, 1)]) == 192

    def test_it_may_need_more_than_is_alive(self) -> None:
        # 128 lies on 0..128 and 128 to 256 over steps 0-1 and 1-2: the first 64 stands between.
        blocks = [Block(192, 0, 1), Block(128, 1, 2), Block(128, 2, 3), Block(64, 3, 4), Block(64, 0, 4)]

        assert alive_bytes(blocks) == 192 + 128 + 64
        assert greedy_bytes(blocks) >= alive_bytes(blocks)


class TestBlocks:
    def test_a_view_takes_no_memory_of_its_own(self) -> None:
        steps = [*chain(64), Step(("t1",), {"t2": ((8, 8), 64)}, view=True), Step(("t2",), {"t3": ((64,), 64)})]

        assert blocks_of(steps, NOBODY) == [Block(64, 0, 2), Block(64, 2, 2)]

    def test_a_result_is_not_written_over_an_input_that_another_reads(self) -> None:
        steps = [*chain(64), Step(("t1",), {"t2": ((64,), 64)}, in_place=("t1",)), Step(("t1", "t2"), {"t3": ((64,), 64)})]

        assert blocks_of(steps, NOBODY) == [Block(64, 0, 2), Block(64, 1, 2), Block(64, 2, 2)]

    def test_tensors_of_the_caller_take_no_block(self) -> None:
        assert blocks_of(chain(64, 128), frozenset({"t2"})) == [Block(64, 0, 1)]


class TestPattern:
    def test_blocks_are_placed_in_the_order_in_which_kernels_run(self) -> None:
        # 256, then 512 behind it, then 384 where 256 was does not fit: behind 512.
        peak, _ = pattern_bytes(chain(256, 512, 384), NOBODY)

        assert peak == 256 + 512 + 384

    def test_a_freed_block_is_taken_over_by_a_result_of_equal_shape(self) -> None:
        peak, _ = pattern_bytes(chain(256, 512, 256, 512), NOBODY)

        assert peak == 768

    def test_equal_bytes_of_another_shape_take_a_block_of_their_own(self) -> None:
        # The third result, of 256 bytes in another shape, goes into the gap of the first; the first block is free by then.
        steps = [
            Step(("x",), {"a": ((256,), 256)}),
            Step(("a",), {"b": ((64,), 64)}),
            Step(("b",), {"c": ((2, 128), 256)}),
            Step(("b", "c"), {"d": ((64,), 64)}),
        ]

        assert pattern_bytes(steps, NOBODY)[0] == 256 + 64 + 64


class TestArena:
    def test_regions_double_until_a_block_fits(self) -> None:
        arena = Arena()
        arena.take(3_211_264)
        assert arena.regions_bytes == 4 << 20

        # What is left of the first region is 983,040 bytes: not enough for this one, which takes as much again.
        arena.take(1_000_000)
        assert arena.regions_bytes == 8 << 20

    def test_a_block_that_is_given_back_is_used_again(self) -> None:
        arena = Arena()
        arena.give_back(arena.take(600_000))
        arena.take(1_000_000)

        assert arena.regions_bytes == 1 << 20

    def test_a_piece_of_twice_the_size_is_parted_and_a_smaller_one_is_not(self) -> None:
        half, more = Arena(), Arena()

        # A region is 1,048,576 bytes. Of its half another half is left; of 256 bytes more the rest goes along.
        assert [half.take(size)[1] for size in (524_288, 524_288)] == [524_288, 524_288]
        assert half.regions_bytes == 1 << 20
        assert more.take(524_544)[1] == 1 << 20
