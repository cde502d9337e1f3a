"""Forecasts how long a neural network takes on a device, without the device at hand."""

__version__ = "0.1.0"
