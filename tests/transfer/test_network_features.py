from __future__ import annotations

import numpy as np
import pytest

from latcast.transfer.network_features import NetworkFeatures
from latcast.transfer.published_layers import kernels_of_layers

# one-hot operator, side in and out, channels in and out, window, stride, padding, multiply-accumulates
CONV = [1, 0, 0, 0, 0, 10, 10, 8, 16, 1, 1, 0, 10 * 10 * 8 * 16]
DEPTHWISE = [0, 1, 0, 0, 0, 10, 10, 16, 16, 3, 1, 1, 10 * 10 * 9 * 16]
ODD = [1, 0, 0, 0, 0, 10, 10, 8, 15, 1, 1, 0, 10 * 10 * 8 * 15]


def features(*networks: list[list[float]], known: int = 0) -> tuple[NetworkFeatures, np.ndarray]:
    kernels = [kernels_of_layers(np.array(layers, dtype=float)) for layers in networks]
    found = NetworkFeatures.of(kernels[: known or None])
    return found, found.features(kernels)


def test_features_are_logarithms_of_what_kernels_of_a_class_compute_and_how_many_there_are() -> None:
    found, values = features([CONV, CONV])
    named = dict(zip(found.names, values[0], strict=True))

    assert len(found.names) == values.shape[1]
    flops = next(name for name in found.names if name.startswith("all: "))
    # Two multiply-accumulates of 12,800: 51,200 FLOPs, in millions.
    assert named[flops] == pytest.approx(np.log1p(0.0512), rel=1e-6)
    assert named[[name for name in found.names if name.startswith("all: ")][-1]] == pytest.approx(np.log(3))


def test_the_order_and_the_number_of_layers_do_not_move_features() -> None:
    _, values = features([CONV, DEPTHWISE, CONV], [CONV, CONV, DEPTHWISE], [DEPTHWISE])

    assert values[0].tolist() == pytest.approx(values[1].tolist())
    assert values.shape[0] == 3


def test_channels_that_miss_a_vector_length_are_told() -> None:
    found, values = features([CONV], [ODD])
    odd = [index for index, name in enumerate(found.names) if name.startswith("channels no multiple")]

    assert not values[0, odd].any()
    assert values[1, odd].any()


def test_kernels_of_a_class_that_was_not_known_count_in_the_totals_alone() -> None:
    found, values = features([CONV], [CONV, DEPTHWISE], known=1)
    total = [index for index, name in enumerate(found.names) if name.startswith("all: ")]
    own = [index for index, name in enumerate(found.names) if name.startswith(found.classes[0])]

    assert values[0, own].tolist() == pytest.approx(values[1, own].tolist())
    assert (values[1, total] > values[0, total]).any()
