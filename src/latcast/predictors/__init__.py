"""Predictors of latency from kernels: analytical terms, regressors, the predictor of a platform, its intervals and its bundle."""
