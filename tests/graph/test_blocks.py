"""The blocks that a network is made of."""

from __future__ import annotations

import pytest

from latcast.graph.blocks import NO_BLOCK, block_shares, main_block
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph


def basic(builder: GraphBuilder, x: str, *, gated: bool = False, first: bool = False) -> str:
    """Two 3x3 convolutions and a sum; normalisation and activation before or behind them, and a gate where asked for."""
    y = builder.relu(builder.batch_norm(x)) if first else x
    y = builder.conv(y, builder.channels(x), 3, padding=1)
    y = builder.relu(builder.batch_norm(y))
    y = builder.conv(y, builder.channels(x), 3, padding=1)
    if gated:
        y = builder.squeeze_excite(y, 4)
    y = builder.add(y, x)
    return y if first else builder.relu(y)


def perceptron(builder: GraphBuilder, x: str, hidden: int) -> str:
    y = builder.relu(builder.conv(x, hidden, 1))
    return builder.add(builder.conv(y, builder.channels(x), 1), x)


def image(channels: int = 16) -> tuple[GraphBuilder, str]:
    builder = GraphBuilder("net")
    return builder, builder.input((1, channels, 8, 8))


def test_a_block_counts_by_the_root_of_its_multiply_accumulates() -> None:
    builder, x = image()
    # 2 * 8 * 8 * 16 * 16 * 9 = 294,912 and 2 * 8 * 8 * 16 * 36 = 73,728, a quarter of it.
    graph = builder.finish(perceptron(builder, basic(builder, x), 36))

    assert block_shares(graph) == pytest.approx({"wide + wide": 2 / 3, "1x1 + 1x1": 1 / 3})
    assert main_block(graph) == "wide + wide"


@pytest.mark.parametrize("given", [{"gated": True}, {"first": True}, {"gated": True, "first": True}])
def test_normalisations_activations_and_gates_make_no_other_block(given: dict[str, bool]) -> None:
    builder, x = image(64)

    assert block_shares(builder.finish(basic(builder, x, **given))) == {"wide + wide": 1.0}


def test_in_a_chain_a_block_begins_where_neighbouring_values_are_looked_at() -> None:
    builder, x = image()
    for _ in range(3):
        x = builder.relu(builder.conv(builder.relu(builder.depthwise_conv(x)), 16, 1))

    assert block_shares(builder.finish(x)) == {"1x1 + depthwise": 1.0}


def test_a_convolution_that_widens_first_belongs_to_the_block_behind_it() -> None:
    builder, x = image()
    x = builder.conv(builder.relu(builder.depthwise_conv(builder.relu(builder.conv(x, 64, 1)))), 16, 1)

    assert main_block(builder.finish(x)) == "1x1 + 1x1 + depthwise"


def test_more_layers_of_a_kind_make_no_other_block() -> None:
    def dense(layers: int) -> Graph:
        builder, x = image(32)
        made = [x]
        for _ in range(layers):
            y = builder.conv(builder.concat(made) if len(made) > 1 else x, 32, 1)
            made.append(builder.conv(y, 32, 3, padding=1))
        return builder.finish(builder.concat(made))

    assert main_block(dense(6)) == main_block(dense(24)) == "1x1 + 1x1 + wide + wide"


def test_products_of_two_activations_do_not_count_and_layers_with_weights_do() -> None:
    builder = GraphBuilder("tokens")
    x = builder.input((1, 49, 64))
    attended = builder.matmul(builder.softmax(builder.matmul(x, builder.transpose(x, (0, 2, 1)))), builder.linear(x, 64))
    x = builder.add(x, builder.linear(attended, 64))

    assert main_block(builder.finish(x)) == "linear + linear"


def test_a_network_without_weighted_layers_has_no_block() -> None:
    builder, x = image()

    assert main_block(builder.finish(builder.relu(x))) == NO_BLOCK
