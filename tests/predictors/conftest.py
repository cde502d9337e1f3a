"""Fixtures of the tests of predictors."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.graph.ir import Graph
from latcast.predictors.platform_predictor import PlatformPredictor
from tests.predictors.made_up_platform import graphs_of, made_up_samples, make_predictor


@pytest.fixture(scope="session")
def training_graphs() -> list[Graph]:
    return graphs_of({"mobilenet_v2": 10, "resnet": 6, "vit": 3}, seed=1)


@pytest.fixture(scope="session")
def samples(training_graphs: list[Graph]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return made_up_samples(training_graphs)


@pytest.fixture(scope="session")
def predictor(samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> PlatformPredictor:
    """Trained on variants of MobileNetV2, ResNet and ViT, with boosted trees on analytical terms."""
    return make_predictor("analytical_gbdt", samples)
