"""The tables and figures of the papers, theirs beside ours."""

from latcast.predictors.regressors import REGRESSORS
from papers.perceptron import MultiLayerPerceptron
from papers.regressors import GradientBoosting, Lasso, RandomForest

for _regressor in (Lasso, RandomForest, GradientBoosting, MultiLayerPerceptron):
    REGRESSORS.register(_regressor.kind, _regressor)
