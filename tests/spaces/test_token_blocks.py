"""Blocks of vision transformers: windows, shifts and patches where they belong."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.spaces import token_blocks
from tests.graph.running import image
from tests.graph.running import run_first as run


def windows_by_six_axes(x: np.ndarray, window: int) -> np.ndarray:
    """Windows as exporters cut them: (N, H, W, C) to (N * windows, window², C)."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // window, window, w // window, window, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, window * window, c)


def test_windows_hold_the_pixels_that_a_transposition_of_six_axes_gives_them() -> None:
    b = GraphBuilder("cut")
    x = b.input((2, 6, 9, 5))
    graph = b.finish(token_blocks.cut_windows(b, x, (6, 9), 3))
    given = image(graph)
    np.testing.assert_array_equal(run(graph, given), windows_by_six_axes(given, 3))
    assert max(len(tensor.shape) for tensor in graph.tensors.values()) == 4


@pytest.mark.parametrize("distance", [2, -2, 5])
def test_rolling_moves_cyclically(distance: int) -> None:
    b = GraphBuilder("roll")
    x = b.input((1, 4, 7, 3))
    graph = b.finish(token_blocks.roll(b, x, distance, 2))
    given = image(graph)
    np.testing.assert_array_equal(run(graph, given), np.roll(given, -distance, axis=2))


def test_the_mask_follows_the_map_under_the_shift() -> None:
    # Two tokens may see each other where, before the shift, they lay in one run of rows and one of columns.
    extent, window, shift = (6, 9), 3, (1, 1)
    rows, columns = np.meshgrid(np.arange(6), np.arange(9), indexing="ij")
    places = np.roll(np.stack([rows, columns], -1), (-1, -1), (0, 1))[None]
    cut = windows_by_six_axes(places, window)
    distance = np.abs(cut[:, :, None] - cut[:, None, :]).max(-1)
    np.testing.assert_array_equal(token_blocks.shifted_window_mask(extent, window, shift)[:, 0] == 0, distance < window)


def tokens_that_see(place: tuple[int, int], *, shifted: bool) -> set[tuple[int, int]]:
    """Places of a 4x4 map, with windows of 2, whose attention changes when the token at ``place`` does."""
    b = GraphBuilder("attention")
    x = b.input((1, 16, 8))
    mask = b.constant(token_blocks.shifted_window_mask((4, 4), 2, (1, 1))) if shifted else None
    y = token_blocks.window_attention(b, x, 2, extent=(4, 4), window=2, shift=(1, 1) if shifted else (0, 0), mask=mask)
    graph = b.finish(y)
    given = image(graph)
    changed = given.copy()
    changed[0, place[0] * 4 + place[1]] += 1.0
    moved = np.abs(run(graph, changed) - run(graph, given))[0].max(-1).reshape(4, 4)
    return {(int(row), int(column)) for row, column in np.argwhere(moved > 1e-4)}


def test_tokens_see_their_window() -> None:
    assert tokens_that_see((1, 1), shifted=False) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert tokens_that_see((3, 0), shifted=False) == {(2, 0), (2, 1), (3, 0), (3, 1)}


def test_tokens_see_across_windows_after_a_shift_but_never_across_the_map() -> None:
    assert tokens_that_see((1, 1), shifted=True) == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert tokens_that_see((0, 2), shifted=True) == {(0, 1), (0, 2)}
    assert tokens_that_see((0, 0), shifted=True) == {(0, 0)}


def test_patch_merging_joins_the_channels_of_neighbours() -> None:
    b = GraphBuilder("merge")
    x = b.input((1, 16, 3))
    out = token_blocks.merge_patches(b, x, (4, 4), 6)
    graph = b.finish(out)
    assert graph.shape(out) == (1, 4, 6)
    (joined,) = (node.inputs[0] for node in graph.nodes if node.op_type == "LayerNormalization")
    given = image(graph)
    grid = given.reshape(4, 4, 3)
    first = np.concatenate([grid[0, 0], grid[0, 1], grid[1, 0], grid[1, 1]])
    cut = b.finish(joined)
    before = cut.with_nodes(cut.nodes[: cut.nodes.index(cut.producers[joined]) + 1])
    np.testing.assert_array_equal(run(before, given)[0, 0], first)


def test_pixels_at_the_same_place_of_their_patches_form_a_sequence() -> None:
    b = GraphBuilder("unfold")
    x = b.input((2, 3, 4, 6))
    graph = b.finish(token_blocks.unfold(b, x))
    given = image(graph)
    unfolded = run(graph, given).reshape(2, 4, 6, 3)
    for place in range(4):
        same_place = given[:, :, place // 2 :: 2, place % 2 :: 2]
        np.testing.assert_array_equal(unfolded[:, place], same_place.reshape(2, 3, 6).transpose(0, 2, 1))


def test_attention_computes_the_same_whether_it_parts_before_or_after_the_heads() -> None:
    outputs = []
    for four_axes in (False, True):
        b = GraphBuilder("attention")
        x = b.input((3, 5, 8))
        graph = b.finish(b.attention(x, 2, four_axes=four_axes))
        outputs.append(run(graph, image(graph)))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-6)
