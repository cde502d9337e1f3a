"""Fixtures of the tests of training: those of predictors."""

from __future__ import annotations

from tests.predictors.conftest import predictor as predictor
from tests.predictors.conftest import samples as samples
from tests.predictors.conftest import training_graphs as training_graphs
