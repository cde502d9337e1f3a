"""A made-up platform whose latencies are known, with a search space on it."""

from __future__ import annotations

import pytest

from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search.encodings import EncodingPredictor
from tests.predictors.made_up_platform import graphs_of, made_up_samples, make_predictor


@pytest.fixture(scope="session")
def platform() -> PlatformPredictor:
    return make_predictor("analytical_gbdt", made_up_samples(graphs_of({"mobilenet_v2": 6, "resnet": 4, "vit": 8}, seed=1)))


@pytest.fixture(scope="session")
def transformers(platform: PlatformPredictor) -> EncodingPredictor:
    """A space with few segments, quick to estimate."""
    return EncodingPredictor(platform, "autoformer")
