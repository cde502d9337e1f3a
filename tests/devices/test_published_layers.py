"""Networks as the lists of layers that Ganesan et al. publish."""

from __future__ import annotations

import numpy as np

from latcast.devices.published_layers import PADDING_VALUE, WIDTH, PaddedLayers

SHORT = np.array([[1.0, 0, 0, 0, 0, 224, 112, 3, 32, 3, 2, 1, 1000.0]])
LONG = np.array(
    [
        [1.0, 0, 0, 0, 0, 112, 56, 32, 64, 7, 2, 3, 4000.0],
        [0, 0, 0, 0, 1.0, 56, 1, 64, 64, 56, 56, 0, 2000.0],
    ]
)


def test_layers_are_divided_by_the_largest_and_filled_up_to_the_longest() -> None:
    """Sides by 224, windows by 7, channels and multiply-accumulates by the largest of the known networks: 64 and 4000."""
    features = PaddedLayers.of([SHORT, LONG]).features([SHORT, LONG]).reshape(2, 2, WIDTH)

    np.testing.assert_allclose(features[0, 0], [1, 0, 0, 0, 0, 1, 0.5, 3 / 64, 0.5, 3 / 7, 2, 1, 0.25])
    np.testing.assert_allclose(features[1, 0], [1, 0, 0, 0, 0, 0.5, 0.25, 0.5, 1, 1, 2, 3, 1])
    np.testing.assert_allclose(features[1, 1], [0, 0, 0, 0, 1, 0.25, 1 / 224, 1, 1, 8, 56, 0, 0.5])
    assert (features[0, 1] == PADDING_VALUE).all()


def test_of_a_network_longer_than_any_known_the_first_layers_count() -> None:
    known = PaddedLayers.of([SHORT])

    assert known.features([LONG]).shape == (1, WIDTH)
    np.testing.assert_allclose(known.features([LONG])[0, [7, 12]], [1, 4])
