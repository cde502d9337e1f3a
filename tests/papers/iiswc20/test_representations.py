from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import TrainingError
from papers.iiswc20.representations import PADDING_VALUE, WIDTH, PaddedLayers, StaticFeatures

KNOWN = (
    {"model": "A", "cpu_code": 7, "ghz": 2.0, "ram_gb": 4},
    {"model": "B", "cpu": "Cortex-A53", "ghz": 1.5, "ram_gb": 2},
)


def test_a_device_is_its_cpu_one_hot_its_frequency_and_its_memory() -> None:
    features = StaticFeatures.of(KNOWN)

    assert features.cpus == ("7", "Cortex-A53")
    assert features.features(KNOWN).tolist() == [[1, 0, 2.0, 4], [0, 1, 1.5, 2]]


def test_an_unknown_cpu_is_none_of_the_known_ones() -> None:
    assert StaticFeatures.of(KNOWN).features([{"cpu": "Kryo", "ghz": 3.0, "ram_gb": 8}]).tolist() == [[0, 0, 3.0, 8]]


def test_a_device_without_frequency_is_refused_by_name() -> None:
    with pytest.raises(TrainingError, match="'Odd' are not known"):
        StaticFeatures.of(KNOWN).features([{"model": "Odd", "cpu": "Kryo"}])


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
