"""Which pairs to measure on a device: each separates what those before left together."""

from __future__ import annotations

from latcast.llm.design import telling_pairs
from latcast.llm.learned_prices import known_prices
from latcast.llm.speeds import SpeedMeasurement, machine_of

BOARD = machine_of("my-board/llama.cpp-1/cpu4/unstated")


def test_six_pairs_differ_in_types_and_models():
    pairs = telling_pairs(known_prices().with_machine(BOARD), BOARD.platform, 6)

    assert len(set(pairs)) == 6
    assert len({quantisation for _, quantisation in pairs}) >= 4
    assert len({model for model, _ in pairs}) >= 2


def test_a_shorter_list_is_the_beginning_of_a_longer_one():
    prices = known_prices().with_machine(BOARD)
    assert telling_pairs(prices, BOARD.platform, 5)[:2] == telling_pairs(prices, BOARD.platform, 2)


def test_what_is_measured_already_is_not_asked_first():
    prices = known_prices()
    first = telling_pairs(prices.with_machine(BOARD), BOARD.platform, 1)[0]
    speeds = [SpeedMeasurement(*first, BOARD.platform, "", count, 512.0, 10.0, 5.0) for count in (64, 512)]

    assert telling_pairs(prices.adapted(BOARD, speeds), BOARD.platform, 1)[0] != first
