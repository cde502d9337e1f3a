"""From kernels to latency: analytical terms, regressors, the predictor of a platform, its intervals and its bundle."""
