"""Models of one kernel type: features -> latency, all trained on the squared percentage error (Li et al. §4.2)."""

from latcast.predictors.regressors.regressor import (
    INTERNAL_REGRESSORS,
    REGRESSORS,
    Regressor,
    fit_regressor,
    regressor_from_arrays,
)

__all__ = ["INTERNAL_REGRESSORS", "REGRESSORS", "Regressor", "fit_regressor", "regressor_from_arrays"]
