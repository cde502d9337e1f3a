"""From kernels to latency: physical terms, regressors, the predictor of a platform, its intervals and its bundle."""
