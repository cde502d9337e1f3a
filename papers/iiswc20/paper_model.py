"""The cost model of Ganesan et al. (§III-C): boosted trees from a network's layers and a device's signature to milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from latcast.errors import MissingExtraError
from papers.iiswc20.grid_boosting import BoostingSettings, GridBoosting


class TableRegressor(Protocol):
    """Predicts a table from features of its rows and columns."""

    def predict(self, device_features: np.ndarray, network_features: np.ndarray) -> np.ndarray:
        """(devices, networks)."""


class XGBoostTable:
    """XGBoost itself on all cells of a table; the same trees as :class:`GridBoosting`, slower by an order of magnitude.

    Args:
        device_features, network_features, target, settings: See :class:`GridBoosting`.

    Raises:
        MissingExtraError: XGBoost is not installed.
    """

    def __init__(
        self,
        device_features: np.ndarray,
        network_features: np.ndarray,
        target: np.ndarray,
        settings: BoostingSettings | None = None,
    ) -> None:
        try:
            import xgboost
        except ImportError as problem:
            raise MissingExtraError("xgboost", "xgboost", "the paper's model as XGBoost trains it") from problem
        chosen = settings or BoostingSettings()
        self._model: Any = xgboost.XGBRegressor(
            n_estimators=chosen.trees, max_depth=chosen.depth, learning_rate=chosen.learning_rate,
            reg_lambda=chosen.regularisation, min_child_weight=chosen.fewest, tree_method="exact",
        )  # fmt: skip
        known = ~np.isnan(target.ravel())
        self._model.fit(_cells(device_features, network_features)[known], target.ravel()[known])

    def predict(self, device_features: np.ndarray, network_features: np.ndarray) -> np.ndarray:
        """(devices, networks)."""
        found: np.ndarray = self._model.predict(_cells(device_features, network_features))
        return found.reshape(len(device_features), len(network_features)).astype(np.float64)


def _cells(device_features: np.ndarray, network_features: np.ndarray) -> np.ndarray:
    """One row of features for each cell."""
    devices, networks = len(device_features), len(network_features)
    return np.hstack([np.repeat(device_features, networks, axis=0), np.tile(network_features, (devices, 1))])


ENGINES: dict[str, type[GridBoosting] | type[XGBoostTable]] = {"grid": GridBoosting, "xgboost": XGBoostTable}
"""Who grows the trees."""


@dataclass(frozen=True)
class PaperModel:
    """A fitted cost model.

    Attributes:
        trees: What was fitted.
        signature: Indices of the signature's networks.
    """

    trees: TableRegressor
    signature: tuple[int, ...]

    @classmethod
    def fit(
        cls,
        latency_ms: np.ndarray,
        network_features: np.ndarray,
        signature: Sequence[int] | np.ndarray,
        *,
        train: np.ndarray | None = None,
        engine: str = "grid",
    ) -> PaperModel:
        """Fits to all networks but the signature's, as the paper does.

        Args:
            latency_ms: (devices, networks).
            network_features: (networks, features).
            signature: Indices of the networks that describe a device.
            train: (devices, networks) which cells to learn from, the signature's among them or not; all but the signature's
                where None.
            engine: One of :data:`ENGINES`.
        """
        chosen = [int(index) for index in signature]
        used = np.ones(latency_ms.shape, dtype=bool) if train is None else train
        if train is None:
            used[:, chosen] = False
        # Networks that are not learned from stay in the table: so the fits of all signatures split the same features.
        trees = ENGINES[engine](latency_ms[:, chosen], network_features, np.where(used, latency_ms, np.nan))
        return cls(trees, tuple(chosen))

    def predict(self, signature_ms: np.ndarray, network_features: np.ndarray) -> np.ndarray:
        """(devices, networks) milliseconds, from (devices, signature) milliseconds."""
        return self.trees.predict(signature_ms, network_features)
