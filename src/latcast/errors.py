"""Every exception that latcast raises on purpose.

A message says what was found, what was expected, and what to do about it. The command line prints it on one line
and exits with 1 (2 for usage, 3 for a failed check).
"""

from __future__ import annotations


class LatcastError(Exception):
    """Root of all errors of this package."""


class ModelError(LatcastError):
    """A model file or an in-memory model cannot be turned into a graph."""


class DynamicShapeError(ModelError):
    """A dimension has no number; the message names the tensor and the dimension."""


class UnknownOperatorError(ModelError):
    """An operator has no entry in the operator table and the caller asked for strictness."""


class UnsupportedOperatorError(LatcastError):
    """A writer or a runtime has no way to express an operator."""


class RuntimeFailure(LatcastError):
    """A runtime refused to load or to run a network, or its worker died."""


class MissingExtraError(LatcastError):
    """An optional dependency is not installed; the message gives the command that adds it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed; add it with: pip install 'latcast[{extra}]'"
        )
        self.package = package
        self.extra = extra


class ClusterError(LatcastError):
    """Other machines cannot be reached, or do not offer what is needed."""


class MeasurementError(LatcastError):
    """A measurement, a campaign or a store of measurements is not usable."""


class DatasetError(LatcastError):
    """A dataset file is malformed; the message gives file and line."""


class TrainingError(LatcastError):
    """A predictor cannot be trained from what was given."""


class BundleError(LatcastError):
    """A predictor bundle is damaged, unsafe, or of a newer schema."""


class UnknownPlatformError(LatcastError):
    """No predictor for a platform; the message suggests the nearest names."""


class UnknownNameError(LatcastError):
    """A plug-in, family, sampler or kernel type of this name does not exist."""


class RepositoryError(LatcastError):
    """The shared repository refuses something, or cannot be reached."""
