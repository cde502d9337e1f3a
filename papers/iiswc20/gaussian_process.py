"""Our model on the dataset's phones and networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.devices.calibration import Calibration, calibrate_deviations
from latcast.devices.cross_device import CrossDeviceModel
from latcast.devices.cross_device_fit import fit_cross_device
from papers.iiswc20.pieces import Piece
from papers.iiswc20.published import Published


def fitted(
    published: Published,
    latency_ms: np.ndarray,
    signature: Sequence[int] | np.ndarray,
    seed: int,
    networks: np.ndarray | None = None,
) -> CrossDeviceModel:
    """Fits to some phones.

    Args:
        published: Where the networks are from.
        latency_ms: (phones, networks) NaN where not measured.
        signature: Columns by which phones are compared.
        seed: Of what is random in the fit.
        networks: Which network each column is; all in their order where None.
    """
    return fit_cross_device(
        latency_ms,
        _indices(published, networks),
        fit_networks=published.catalogue,
        signature=[int(index) for index in signature],
        seed=seed,
    )


def calibrated(model: CrossDeviceModel, published: Published, piece: Piece, networks: np.ndarray | None = None) -> Calibration:
    """How wide intervals are, learned from the phones that the model knows.

    Args:
        model: From :func:`fitted`, to ``networks``.
        published: Where the networks are from.
        piece: Says how many networks of a phone are measured, and the seed.
        networks: As for :func:`fitted`.
    """
    return calibrate_deviations(
        model, _indices(published, networks), fit_networks=published.catalogue, size=piece.size, seed=piece.seed
    )  # fmt: skip


def _indices(published: Published, networks: np.ndarray | None) -> list[int]:
    return list(range(published.networks)) if networks is None else [int(index) for index in networks]
