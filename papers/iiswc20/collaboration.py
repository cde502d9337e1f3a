"""Many phones that each run few networks (Ganesan et al. §V)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.iiswc20.paper import FIGURE_13_PHONE
from papers.iiswc20.protocol import Row, Trial, choose_signature, fit_ours, metrics
from papers.iiswc20.published import Published
from papers.iiswc20.trees import GridBoosting, fit_paper_trees

DEVICES = 50
STEPS = (2, 5, 10, 20, 30, 40, 50)
"""Numbers of devices at which the collaboration is judged, Fig. 12."""

TREES, OURS_OF = "trees", "ours of "
"""Variants: the paper's trees with every number of devices, or ours with one."""

OWN_MEASUREMENTS = 10
"""Beside the signature, Fig. 13."""

ISOLATED_SIZES = (10, 20, 40, 60, 80, 100, 110)


def signature_of_all(published: Published) -> np.ndarray:
    """§V-A: chosen by MIS from all phones and networks."""
    return choose_signature("mutual_information", published.mean_ms, 10, 0)


def contributed(published: Published, signature: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which phones take part, in their order, and (phones, networks) what each measured beside the signature."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(published.phones))[:DEVICES]
    rest = np.setdiff1d(np.arange(published.networks), signature)
    cells = np.zeros((len(order), published.networks), dtype=bool)
    for row in cells:
        row[rng.permutation(rest)[: int(share * published.networks)]] = True
    return order, cells


def collaborative(trial: Trial, published: Published) -> list[Row]:
    """Fig. 12: R² over all networks of the phones so far, and the figures of the cells that nobody measured.

    ``size`` is the percentage of the networks that each phone contributes beside the signature. The variant is the paper's
    trees with all of :data:`STEPS` phones, or ours with a number of them.
    """
    signature = signature_of_all(published)
    order, cells = contributed(published, signature, trial.size / 100, trial.seed)
    found = []
    for count in STEPS if trial.variant == TREES else (int(trial.variant.removeprefix(OURS_OF)),):
        if count > len(order):
            break
        phones, measured = order[:count], cells[:count]
        latency_ms = published.mean_ms[phones]
        unmeasured = ~measured
        unmeasured[:, signature] = False
        if trial.variant == TREES:
            model = fit_paper_trees(latency_ms, published.padded_layers, signature, train=measured)
            predicted = model.predict(latency_ms[:, signature], published.padded_layers)
            found.append(_row("paper", count, predicted, latency_ms, unmeasured))
        else:
            predicted = predict_missing(latency_ms, measured, published, signature, seed=trial.seed)
            found.append(_row("ours", count, predicted, latency_ms, unmeasured))
    return found


def _row(model: str, count: int, predicted: np.ndarray, latency_ms: np.ndarray, unmeasured: np.ndarray) -> Row:
    all_cells = metrics(predicted, latency_ms)
    return {"model": model, "devices": count, "r2_all": all_cells["r2"], **metrics(predicted[unmeasured], latency_ms[unmeasured])}


def predict_missing(
    latency_ms: np.ndarray, measured: np.ndarray, published: Published, signature: Sequence[int] | np.ndarray, *, seed: int
) -> np.ndarray:
    """(phones, networks) ours: measured cells as they are, the others predicted."""
    table = np.where(measured, latency_ms, np.nan)
    table[:, signature] = latency_ms[:, signature]
    known = np.flatnonzero(~np.isnan(table).all(axis=0))
    unknown = np.setdiff1d(np.arange(published.networks), known)
    places = {network: index for index, network in enumerate(known.tolist())}
    model = fit_ours(published, table[:, known], [places[int(network)] for network in signature], seed, known)
    described = model.networks.describe(unknown.tolist()) if len(unknown) else None
    expected = np.exp(model.known_devices(described))
    result = np.empty_like(table)
    result[:, np.concatenate([known, unknown])] = expected
    return np.where(np.isnan(table), result, table)


def isolated(trial: Trial, published: Published) -> list[Row]:
    """Fig. 13: Redmi Note 5 Pro in a collaboration of 50 phones with 20 measurements each, and on its own."""
    rows = [index for index, model in enumerate(published.models) if model == FIGURE_13_PHONE]
    if not rows:
        return []
    rng = np.random.default_rng(trial.seed)
    phone = rows[trial.seed % len(rows)]
    signature = signature_of_all(published)
    found = []
    for twins in (True, False):
        pool = [index for index in range(len(published.phones)) if index != phone and (twins or index not in rows)]
        order = np.concatenate([[phone], rng.permutation(pool)[: DEVICES - 1]])
        _, cells = contributed(published, signature, OWN_MEASUREMENTS / published.networks, trial.seed)
        measured = cells[: len(order)]
        measured[:, signature] = True
        latency_ms = published.mean_ms[order]
        model = fit_paper_trees(latency_ms, published.padded_layers, signature, train=measured)
        predicted = model.predict(latency_ms[:1, signature], published.padded_layers)
        name = "collaborative" if twins else "collaborative, no other phone of the model"
        found.append({"model": name, "measurements": 2 * OWN_MEASUREMENTS, **metrics(predicted, latency_ms[:1])})
        if twins:
            ours = predict_missing(latency_ms, measured, published, signature, seed=trial.seed)[:1]
            left = ~measured[:1]
            row = {"r2_all": metrics(ours, latency_ms[:1])["r2"], **metrics(ours[left], latency_ms[:1][left])}
            found.append({"model": "ours", "measurements": 2 * OWN_MEASUREMENTS, **row})
    own_ms = published.mean_ms[[phone]]
    for size in ISOLATED_SIZES:
        chosen = rng.permutation(published.networks)[:size]
        trees = GridBoosting(np.zeros((1, 1)), published.padded_layers[chosen], own_ms[:, chosen])
        found.append(
            {
                "model": "on its own", "measurements": size,
                **metrics(trees.predict(np.zeros((1, 1)), published.padded_layers), own_ms),
            }
        )  # fmt: skip
    return found
