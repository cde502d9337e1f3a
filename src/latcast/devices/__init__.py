"""A new platform from few measurements: signature sets and the cross-device model."""
