"""The model of devices on phones: fitted to those that a split knows, and what it says of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from latcast.devices.device_model import DescribedNetworks, DeviceModel, KnownPlatform
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from papers.iiswc20.published import KIND, PublishedPhones
from shipping.arbitration import fit_calibrated
from shipping.device_model_fit import fit_device_model


@dataclass(frozen=True)
class PhoneForecasts:
    """Of networks on phones, each array (phones, networks).

    Attributes:
        mean, deviation: Of the logarithms of latencies in milliseconds.
    """

    mean: np.ndarray
    deviation: np.ndarray

    @property
    def latency_ms(self) -> np.ndarray:
        """The points."""
        return np.asarray(np.exp(self.mean))

    @property
    def bounds_ms(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the 90 % interval."""
        reach = LEVEL_DEVIATIONS * self.deviation
        return np.exp(self.mean - reach), np.exp(self.mean + reach)


@dataclass(frozen=True)
class PhoneModel:
    """Attributes:
    model: Of devices.
    described: All networks of the dataset.
    phones: All phones of the dataset, without their latencies.
    """

    model: DeviceModel
    described: DescribedNetworks
    phones: tuple[KnownPlatform, ...]

    @classmethod
    def fitted(
        cls,
        published: PublishedPhones,
        rows: Sequence[int] | np.ndarray,
        latency_ms: np.ndarray,
        seed: int,
        *,
        calibrated: bool = False,
    ) -> PhoneModel:
        """Fitted to some phones.

        Args:
            latency_ms: (rows, all networks) NaN where it is not known.
            calibrated: Whether weights of members and widths of intervals are learned; every member weighs the same where not.
        """
        features = published.features
        known = []
        for row, values in zip(rows, latency_ms, strict=True):
            measured = np.flatnonzero(np.isfinite(values))
            known.append(replace(published.platforms[int(row)], networks=measured, log_ms=np.log(values[measured])))
        fit = partial(fit_calibrated, lineages=[""] * len(features)) if calibrated else fit_device_model
        model = fit(known, features, seed=seed)
        return cls(model, model.described(features), published.platforms)

    def of(self, row: int, measured: Sequence[int] | np.ndarray, latency_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation of logarithms, each (all networks,), of a phone of which some networks are measured.

        Where the model was fitted to the phone itself, the phone is none of those that it is compared with.
        """
        phone = self.phones[row]
        others = [place for place, each in enumerate(self.model.platforms) if each.name != phone.name]
        platforms = tuple(self.model.platforms[place] for place in others)
        model = replace(self.model, platforms=platforms, states=self.model.states[others])
        seen = self.described.rows(np.asarray(measured, dtype=int))
        found = model.forecast(KIND, phone.covariates, seen, np.log(latency_ms), phone.silicon)
        return self.described.log_ms(found)

    def new_phones(
        self, rows: Sequence[int] | np.ndarray, signature: Sequence[int] | np.ndarray, latency_ms: np.ndarray
    ) -> PhoneForecasts:
        """Return all networks on phones.

        Args:
            latency_ms: (rows, signature).
        """
        found = [self.of(int(row), signature, values) for row, values in zip(rows, latency_ms, strict=True)]
        return PhoneForecasts(np.array([mean for mean, _ in found]), np.array([deviation for _, deviation in found]))

    def network_effects(
        self, rows: Sequence[int] | np.ndarray, signature: Sequence[int] | np.ndarray, latency_ms: np.ndarray
    ) -> np.ndarray:
        """(all networks,) logarithm of how many times longer each takes than forecast from the signature, the median of known
        phones. It is no part of `latcast device add`, which recalls the networks of its pool in another way.

        Args:
            latency_ms: (rows, all networks).
        """
        found = self.new_phones(rows, signature, latency_ms[:, signature])
        return np.asarray(np.median(np.log(latency_ms) - found.mean, axis=0))
