"""One Gaussian process over devices and networks, in logarithms of latencies.

The latency of network n on device d is the device's offset, the network's typical latency, and what the device makes differ
from it, with covariance ``Kn ⊗ (a + b·Kd + f·1[d=d']) + 1[n=n'] ⊗ (c + e·Kd)`` plus noise of each device: ``Kn`` from the
networks' kernels (:mod:`latcast.devices.network_covariance`), ``Kd`` from the devices' signatures
(:mod:`latcast.devices.device_covariance`). Its variances are those of greatest likelihood. Any cell may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from latcast.devices.cell_likelihood import Cells, Explained, Posterior
from latcast.devices.conditioning import condition
from latcast.devices.device_covariance import DevicePairs, DeviceScales, Signature, SignatureSpace
from latcast.devices.network_covariance import Described, NetworkPrior
from latcast.errors import TrainingError

NOISE_SCALES = 7
"""How many noise variances a new device may have: quantiles of those of the known devices."""


@dataclass(frozen=True)
class Predicted:
    """Attributes:
    mean: (devices, networks) expected logarithms of milliseconds.
    deviation: (devices, networks) standard deviations of a measurement's logarithm.
    """

    mean: np.ndarray
    deviation: np.ndarray

    @property
    def latency_ms(self) -> np.ndarray:
        latency: np.ndarray = np.exp(self.mean)
        return latency


@dataclass(frozen=True)
class DeviceDistances:
    """Distances of new devices to the known ones.

    Attributes:
        nearest: (devices,) distance to the nearest known device, in units of the median distance of two of them.
        usual: The distance to its nearest within which 95 % of the known devices lie.
        neighbour: (devices,) index of the nearest known device.
    """

    nearest: np.ndarray
    usual: float
    neighbour: np.ndarray

    @property
    def unlike(self) -> np.ndarray:
        """(devices,) whether a device lies more than twice as far from all others as the known ones do."""
        far: np.ndarray = self.nearest > 2 * max(self.usual, 0.1)
        return far


@dataclass(frozen=True)
class CrossDeviceModel:
    """A fitted model.

    Attributes:
        networks: Fitted description of networks.
        described: The known networks in it.
        covariance: (networks, networks) of the known networks.
        log_ms: (devices, networks) what was measured, NaN where not.
        filled: The same with the model's first guess in missing cells, which signatures are taken from.
        cells: The cells, far-off ones drawn in.
        typical: (networks,) typical pattern.
        level: (devices,) what was subtracted from the cells beside the networks' means.
        scales: Variances.
        noise: (devices,) noise variances.
        signature: Indices of the networks that the variances were fitted with.
    """

    networks: NetworkPrior
    described: Described
    covariance: np.ndarray
    log_ms: np.ndarray
    filled: np.ndarray
    cells: Cells
    typical: np.ndarray
    level: np.ndarray
    scales: DeviceScales
    noise: np.ndarray
    signature: tuple[int, ...]

    @cached_property
    def _noise_scales(self) -> np.ndarray:
        quantiles = (np.arange(NOISE_SCALES) + 0.5) / NOISE_SCALES
        found: np.ndarray = np.exp(np.quantile(np.log(self.noise), quantiles))
        return found

    def _view(self, log_ms: np.ndarray, typical: np.ndarray) -> DeviceView:
        """The devices as signatures on some networks.

        Args:
            log_ms: (devices, signature networks) of the known devices.
            typical: (signature networks,).
        """
        space = SignatureSpace.of(log_ms, typical)
        signature = space.signature(log_ms)
        pairs = DevicePairs.of(space, signature, signature)
        a, b = pairs.covariance(self.scales, same=True)
        return DeviceView(
            space, signature, pairs, self.cells.posterior(a, b, self.noise), self.cells.explained(a, b, self.noise), a, b
        )

    @cached_property
    def own_view(self) -> DeviceView:
        """The devices as the variances were fitted."""
        chosen = list(self.signature)
        return self._view(self.filled[:, chosen], self.typical[chosen])

    def known_devices(self, others: Described | None = None) -> np.ndarray:
        """Expected logarithms of the known devices, (devices, known networks and then others)."""
        view = self.own_view
        place, mean, cross = self._wanted(others)
        smooth = cross @ view.posterior.weights @ view.a
        own = np.where((place >= 0)[:, None], (view.posterior.weights @ view.b)[place], 0.0)
        expected: np.ndarray = (mean[:, None] + smooth + own + view.posterior.offset).T + self.level[:, None]
        return expected

    def _wanted(self, others: Described | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Place among the known, mean, and covariance with the known, of the known networks and others."""
        place = np.arange(len(self.covariance))
        if others is None:
            return place, self.described.mean, self.covariance
        return (
            np.concatenate([place, np.full(len(others.mean), -1)]),
            np.concatenate([self.described.mean, others.mean]),
            np.vstack([self.covariance, self.networks.covariance(others, self.described)]),
        )

    def new_devices(
        self, measured: Sequence[int] | np.ndarray, latency_ms: np.ndarray, others: Described | None = None
    ) -> tuple[Predicted, DeviceDistances]:
        """Predicts new devices that all ran the same networks.

        Args:
            measured: Indices of the networks that were measured: of the known networks, and behind them of the others.
            latency_ms: (devices, measured).
            others: Networks beside the known ones.

        Returns:
            Predictions of the known networks and then the others, and how like the known devices each is.

        Raises:
            TrainingError: Nothing was measured.
        """
        chosen = np.asarray(measured, dtype=np.int64)
        if not len(chosen) or latency_ms.shape[1] != len(chosen):
            raise TrainingError(
                f"{len(chosen)} measured networks with latencies of shape {latency_ms.shape}; expected at least one"
            )
        log_ms = np.log(latency_ms)
        known = self.filled if others is None else np.hstack([self.filled, self.known_devices(others)[:, len(self.typical) :]])
        typical = self.typical if others is None else np.concatenate([self.typical, self._typical_of(known)])
        view = self._view(known[:, chosen], typical[chosen])
        signature = view.space.signature(log_ms)
        place, mean, cross = self._wanted(others)
        with_measured, own_variance = self._prior(others, chosen, cross, place)
        pairs = DevicePairs.of(view.space, signature, view.signature)
        a, b = pairs.covariance(self.scales, same=False)
        results = []
        for index in range(len(log_ms)):
            alone = signature.rows(np.array([index]))
            self_pair = DevicePairs.of(view.space, alone, alone)
            a_self, b_self = (float(value[0, 0]) for value in self_pair.covariance(self.scales, same=True))
            root = view.explained.root(cross, place, a[index], b[index])
            smooth = cross @ (view.posterior.weights @ a[index])
            own = np.where(place >= 0, (view.posterior.weights @ b[index])[place], 0.0)
            covariance = a_self * with_measured - root @ root[chosen].T
            covariance[chosen, np.arange(len(chosen))] += b_self
            variance = a_self * own_variance + b_self - (root**2).sum(axis=1)
            results.append(condition(mean + smooth + own, covariance, variance, chosen, log_ms[index], self._noise_scales))
        predicted = Predicted(np.array([r.mean for r in results]), np.sqrt([r.variance for r in results]))
        return predicted, view.distances(pairs)

    def _typical_of(self, rows: np.ndarray) -> np.ndarray:
        """(others,) typical pattern of networks beside the known ones, from expected rows."""
        relative = rows[:, len(self.typical) :] - np.median(rows[:, : len(self.typical)] - self.typical, axis=1, keepdims=True)
        pattern: np.ndarray = np.median(relative, axis=0)
        return pattern

    def _prior(
        self, others: Described | None, chosen: np.ndarray, cross: np.ndarray, place: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(wanted, measured) covariance of networks, and (wanted,) their variance."""
        known = len(self.covariance)
        variance = np.diag(self.covariance)
        if others is None:
            return self.covariance[:, chosen], variance
        full = np.zeros((len(place), len(chosen)))
        inside = chosen < known
        full[:, inside] = cross[:, chosen[inside]]
        if not inside.all():
            outside = chosen[~inside] - known
            full[:known, ~inside] = cross[known:][outside].T
            full[known:, ~inside] = self.networks.covariance(others, others)[:, outside]
        return full, np.concatenate([variance, self.networks.variance(others)])


@dataclass(frozen=True)
class DeviceView:
    """The known devices as signatures on some networks, and what their cells say then."""

    space: SignatureSpace
    signature: Signature
    pairs: DevicePairs
    posterior: Posterior
    explained: Explained
    a: np.ndarray
    b: np.ndarray

    def distances(self, pairs: DevicePairs) -> DeviceDistances:
        """Of new devices to the known ones.

        Args:
            pairs: New devices with the known ones.
        """
        among = self.pairs.distance + np.diag(np.full(len(self.pairs.distance), np.inf))
        usual = float(np.quantile(np.sqrt(among.min(axis=1)), 0.95)) if len(among) > 1 else np.inf
        return DeviceDistances(np.sqrt(pairs.distance.min(axis=1)), usual, pairs.distance.argmin(axis=1))
