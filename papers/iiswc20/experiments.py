"""The experiments of Ganesan et al., and ours beside them: each computes the rows of one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from latcast.devices.cross_device import Predicted
from latcast.devices.cross_device_fit import fit_cross_device, refitted
from latcast.devices.signature_selection import SELECTIONS
from latcast.errors import DatasetError
from papers.iiswc20.architectures import (
    FIT,
    JUDGED_FROM,
    LEARNED,
    NEW_DEVICES,
    SMALLEST_SHARE,
    middle,
    signature_cells,
    steadied,
)
from papers.iiswc20.collaboration import collaborative, isolated
from papers.iiswc20.gaussian_process import calibrated, fitted
from papers.iiswc20.grid_boosting import GridBoosting
from papers.iiswc20.judged import figures, split_networks, split_phones
from papers.iiswc20.paper_model import PaperModel
from papers.iiswc20.phones import speed_clusters
from papers.iiswc20.pieces import Piece, Row
from papers.iiswc20.published import Published
from papers.iiswc20.representations import StaticFeatures

LOGARITHMIC = "logarithms of ratios"
"""The paper's trees on the logarithm of latency over the signature's mean, so that they need not extrapolate."""


def select(method: str, latency_ms: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A signature from known phones."""
    return np.array(SELECTIONS.get(method)(latency_ms, size, seed))


def others(count: int, signature: np.ndarray) -> np.ndarray:
    """Networks that are not in a signature."""
    return np.setdiff1d(np.arange(count), signature)


def static(piece: Piece, published: Published) -> list[Row]:
    """Fig. 8: the paper's trees on static features of the hardware. Variants: features as published; those of other phones,
    dealt out at random; no phones of one model on both sides; no phones of one CPU on both sides."""
    latency_ms = published.mean_ms
    train, test = split_phones(published, piece.seed, by_model=piece.variant == "models apart")
    if piece.variant == "CPUs apart":
        train, test = _cpus_apart(published, piece.seed)
    features = StaticFeatures.of([published.hardware[index] for index in train]).features(published.hardware)
    if piece.variant == "rows exchanged":
        features = features[np.random.default_rng(piece.seed).permutation(len(features))]
    trees = GridBoosting(features[train], published.padded_layers, latency_ms[train])
    return [figures(trees.predict(features[test], published.padded_layers), latency_ms[test])]


def _cpus_apart(published: Published, seed: int) -> tuple[np.ndarray, np.ndarray]:
    cpus = [str(device.get("cpu_code")) for device in published.hardware]
    names = sorted(set(cpus))
    order = np.random.default_rng(seed).permutation(len(names))
    held_out = {names[index] for index in order[: round(0.3 * len(names))]}
    inside = np.array([cpu in held_out for cpu in cpus])
    return np.flatnonzero(~inside), np.flatnonzero(inside)


def selection(piece: Piece, published: Published) -> list[Row]:
    """Figs. 9 to 11: the paper's trees with a signature of the variant's selection. Rows of the split that keeps phones of one
    model on one side are marked."""
    found = []
    for by_model in (False, True) if piece.size == 10 and piece.variant != "prediction_error" else (False,):
        train, test = split_phones(published, piece.seed, by_model=by_model)
        signature = select(piece.variant, published.mean_ms[train], piece.size, piece.seed)
        found.append({"models_apart": by_model, **_trees(published.mean_ms, published.padded_layers, train, test, signature)})
    return found


def random_signature(piece: Piece, published: Published) -> list[Row]:
    """Fig. 10: one of 100 random signatures; the seed is the signature's, the split is the first."""
    train, test = split_phones(published, 0)
    signature = select("random", published.mean_ms[train], piece.size, piece.seed)
    return [_trees(published.mean_ms, published.padded_layers, train, test, signature)]


def _trees(latency_ms: np.ndarray, features: np.ndarray, train: np.ndarray, test: np.ndarray, signature: np.ndarray) -> Row:
    """The paper's protocol: the signature's networks are neither learned from nor tested on."""
    judged = others(latency_ms.shape[1], signature)
    model = PaperModel.fit(latency_ms[train], features, signature)
    predicted = model.predict(latency_ms[np.ix_(test, signature)], features[judged])
    return figures(predicted, latency_ms[np.ix_(test, judged)])


def _trees_of_ratios(
    latency_ms: np.ndarray, features: np.ndarray, train: np.ndarray, test: np.ndarray, signature: np.ndarray
) -> Row:
    """The same trees on logarithms of ratios: see :data:`LOGARITHMIC`."""
    log_ms = np.log(latency_ms)
    level = log_ms[:, signature].mean(axis=1, keepdims=True)
    described = np.hstack([level, log_ms[:, signature] - level])
    judged = others(latency_ms.shape[1], signature)
    target = (log_ms - level)[train]
    target[:, signature] = np.nan
    trees = GridBoosting(described[train], features, target)
    predicted = np.exp(trees.predict(described[test], features[judged]) + level[test])
    return figures(predicted, latency_ms[np.ix_(test, judged)])


def process(piece: Piece, published: Published) -> list[Row]:
    """Ours: a new phone, all networks known, ``size`` of them measured. The variant is label and selection."""
    label, method = piece.variant.split(", ")
    latency_ms = published.latency_ms(label)
    found = []
    for by_model in (False, True) if piece.size == 10 and method == "random" else (False,):
        train, test = split_phones(published, piece.seed, by_model=by_model)
        signature = select(method, latency_ms[train], piece.size, piece.seed)
        model = fitted(published, latency_ms[train], signature, piece.seed)
        reach = calibrated(model, published, piece).known
        predicted, likeness = model.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        row = _interval_figures(predicted, latency_ms[test], judged, reach)
        found.append({"models_apart": by_model, "unlike": float(likeness.unlike.mean()), **row})
    return found


def _interval_figures(predicted: Predicted, actual_ms: np.ndarray, judged: np.ndarray, reach: float) -> Row:
    mean, half = predicted.mean[:, judged], reach * predicted.deviation[:, judged]
    return figures(np.exp(mean), actual_ms[:, judged], np.exp(mean - half), np.exp(mean + half))


def unseen_networks(piece: Piece, published: Published) -> list[Row]:
    """A new phone and 30 % of the networks that no phone ran. The variant is a label."""
    latency_ms = published.latency_ms(piece.variant)
    train, test = split_phones(published, piece.seed)
    known, unseen = split_networks(published.networks, piece.seed)
    table = latency_ms[np.ix_(train, known)]
    signature = select("prediction_error", table, piece.size, piece.seed)
    model = fitted(published, table, signature, piece.seed, known)
    reach = calibrated(model, published, piece, known).unseen
    described = model.networks.describe(unseen.tolist())
    predicted, _ = model.new_devices(signature, latency_ms[np.ix_(test, known[signature])], described)
    actual = latency_ms[np.ix_(test, np.concatenate([known, unseen]))]
    ours = {"model": "ours", **_interval_figures(predicted, actual, np.arange(len(known), published.networks), reach)}
    paper = PaperModel.fit(table, published.padded_layers[known], signature)
    trees = paper.predict(latency_ms[np.ix_(test, known[signature])], published.padded_layers[unseen])
    return [ours, {"model": "paper", **figures(trees, latency_ms[np.ix_(test, unseen)])}]


def held_out_cluster(piece: Piece, published: Published) -> list[Row]:
    """Table I: phones of two clusters to learn from, those of the third to test on. The variant is cluster and selection."""
    cluster, method = piece.variant.split(", ")
    latency_ms = published.mean_ms
    clusters = speed_clusters(latency_ms)
    train, test = np.flatnonzero(clusters != cluster), np.flatnonzero(clusters == cluster)
    signature = select(method, latency_ms[train], piece.size, piece.seed)
    features = published.padded_layers
    found = [
        {"model": "trees", **_trees(latency_ms, features, train, test, signature)},
        {"model": LOGARITHMIC, **_trees_of_ratios(latency_ms, features, train, test, signature)},
    ]
    if piece.seed < OURS_IN_TABLE_I:
        model = fitted(published, latency_ms[train], signature, piece.seed)
        predicted, likeness = model.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        row = figures(predicted.latency_ms[:, judged], latency_ms[np.ix_(test, judged)])
        found.append({"model": "ours", "unlike": float(likeness.unlike.mean()), **row})
    return found


OURS_IN_TABLE_I = 5
"""Random signatures for which ours is fitted."""


def sizes_of_process(piece: Piece, published: Published) -> list[Row]:
    """Ours with random signatures of several sizes, variances fitted to 10 and adjusted to each."""
    latency_ms = published.mean_ms
    train, test = split_phones(published, piece.seed)
    order = np.random.default_rng(piece.seed).permutation(published.networks)
    model = fitted(published, latency_ms[train], order[:10], piece.seed)
    found = []
    for size in SIZES:
        signature = order[:size]
        adjusted = refitted(model, signature, seed=piece.seed)
        predicted, _ = adjusted.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        found.append({"size": size, **figures(predicted.latency_ms[:, judged], latency_ms[np.ix_(test, judged)])})
    return found


def new_architectures(piece: Piece, published: Published) -> list[Row]:
    """Cells of NAS-Bench-201 that no device ran, on HELP's new devices; one row a device."""
    found = published.architectures
    if found is None:
        raise DatasetError("the cells of NAS-Bench-201 were not read; give the folder of HELP's table")
    features = found.features.tolist()
    signature = list(signature_cells(found, piece.size))
    model = fit_cross_device(
        found.known_ms[:, :LEARNED], features[:LEARNED], fit_networks=FIT, signature=signature, seed=piece.seed
    )  # fmt: skip
    described = model.networks.describe(features[JUDGED_FROM:])
    predicted, _ = model.new_devices(signature, steadied(found.new_ms)[:, signature], described)
    rows = []
    for device, expected, actual in zip(
        NEW_DEVICES, predicted.latency_ms[:, LEARNED:], found.new_ms[:, JUDGED_FROM:], strict=True
    ):
        judged = middle(actual)
        every = np.flatnonzero(actual > SMALLEST_SHARE * np.percentile(actual, 1))
        all_cells = figures(expected[every], actual[every])
        rows.append({"device": device, "spearman_all": all_cells["spearman"], **figures(expected[judged], actual[judged])})
    return rows


SIZES = (1, 2, 3, 5, 10, 20, 30)
"""Of signatures, Fig. 11."""

EXPERIMENTS: Mapping[str, Callable[[Piece, Published], Sequence[Row]]] = MappingProxyType(
    {
        "static": static,
        "selection": selection,
        "random signature": random_signature,
        "process": process,
        "process sizes": sizes_of_process,
        "unseen networks": unseen_networks,
        "held-out cluster": held_out_cluster,
        "collaborative": collaborative,
        "isolated": isolated,
        "new architectures": new_architectures,
    }
)
