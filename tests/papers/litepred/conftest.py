"""A made-up platform on which networks were "measured"."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from latcast.measure.labels import Label
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Reference
from papers.litepred.searched import MeasuredPlatform
from tests.predictors.made_up_platform import graphs_of, made_up_samples, make_predictor


@pytest.fixture(scope="session")
def predictor() -> PlatformPredictor:
    return make_predictor("analytical_gbdt", made_up_samples(graphs_of({"mobilenet_v2": 6, "resnet": 4, "vit": 8}, seed=1)))


def measured(
    predictor: PlatformPredictor, latencies: Mapping[Reference, float] | list[tuple[Reference, float]]
) -> MeasuredPlatform:
    """A predictor with networks measured at some milliseconds, whose two halves differ by 2 %."""
    pairs = latencies.items() if isinstance(latencies, Mapping) else latencies
    return MeasuredPlatform(
        predictor,
        {
            reference.key: Label(
                predictor.platform.id, reference, "network", ms, ms, (0.99 * ms, 1.01 * ms), rounds=12, processes=3, variation=0.0
            )
            for reference, ms in pairs
        },
    )
