from __future__ import annotations

import pytest

from latcast.errors import TrainingError
from papers.iiswc20.hardware_features import StaticFeatures

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
