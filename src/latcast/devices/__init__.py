"""A new platform from few measurements: the model of devices, covariates, signature sets."""
