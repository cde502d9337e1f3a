"""The experiments of Ganesan et al., and ours beside them: each computes the rows of a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.devices.cross_device import Predicted
from latcast.devices.cross_device_fit import refitted
from papers.harness import plain
from papers.iiswc20.architectures import new_architectures
from papers.iiswc20.collaboration import collaborative, isolated
from papers.iiswc20.protocol import (
    Row,
    Trial,
    calibrate_ours,
    choose_signature,
    fit_ours,
    metrics,
    split_networks,
    split_phones,
)
from papers.iiswc20.published import Published, speed_clusters
from papers.iiswc20.representations import StaticFeatures
from papers.iiswc20.trees import GridBoosting, fit_paper_trees

LOGARITHMIC = "logarithms of ratios"
"""The paper's trees on the logarithm of latency over the signature's mean, so that they need not extrapolate."""


def others(count: int, signature: np.ndarray) -> np.ndarray:
    """Networks that are not in a signature."""
    return np.setdiff1d(np.arange(count), signature)


def static(trial: Trial, published: Published) -> list[Row]:
    """Fig. 8: the paper's trees on static features of the hardware. Variants: features as published; those of other phones,
    dealt out at random; no phones of one model on both sides; no phones of one CPU on both sides."""
    latency_ms = published.mean_ms
    train, test = split_phones(published, trial.seed, by_model=trial.variant == "models apart")
    if trial.variant == "CPUs apart":
        train, test = _cpus_apart(published, trial.seed)
    features = StaticFeatures.of([published.hardware[index] for index in train]).features(published.hardware)
    if trial.variant == "rows exchanged":
        features = features[np.random.default_rng(trial.seed).permutation(len(features))]
    trees = GridBoosting(features[train], published.padded_layers, latency_ms[train])
    return [metrics(trees.predict(features[test], published.padded_layers), latency_ms[test])]


def _cpus_apart(published: Published, seed: int) -> tuple[np.ndarray, np.ndarray]:
    cpus = [str(device.get("cpu_code")) for device in published.hardware]
    names = sorted(set(cpus))
    order = np.random.default_rng(seed).permutation(len(names))
    held_out = {names[index] for index in order[: round(0.3 * len(names))]}
    inside = np.array([cpu in held_out for cpu in cpus])
    return np.flatnonzero(~inside), np.flatnonzero(inside)


def selection(trial: Trial, published: Published) -> list[Row]:
    """Figs. 9 to 11: the paper's trees with a signature of the variant's selection. Rows of the split that keeps phones of one
    model on one side are marked."""
    found = []
    for by_model in (False, True) if trial.size == 10 and trial.variant != "prediction_error" else (False,):
        train, test = split_phones(published, trial.seed, by_model=by_model)
        signature = choose_signature(trial.variant, published.mean_ms[train], trial.size, trial.seed)
        found.append({"models_apart": by_model, **_trees(published.mean_ms, published.padded_layers, train, test, signature)})
    return found


def random_signature(trial: Trial, published: Published) -> list[Row]:
    """Fig. 10: one of 100 random signatures; the seed is the signature's, the split is the first."""
    train, test = split_phones(published, 0)
    signature = choose_signature("random", published.mean_ms[train], trial.size, trial.seed)
    return [_trees(published.mean_ms, published.padded_layers, train, test, signature)]


def _trees(latency_ms: np.ndarray, features: np.ndarray, train: np.ndarray, test: np.ndarray, signature: np.ndarray) -> Row:
    """The paper's protocol: the signature's networks are neither learned from nor tested on."""
    judged = others(latency_ms.shape[1], signature)
    model = fit_paper_trees(latency_ms[train], features, signature)
    predicted = model.predict(latency_ms[np.ix_(test, signature)], features[judged])
    return metrics(predicted, latency_ms[np.ix_(test, judged)])


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
    return metrics(predicted, latency_ms[np.ix_(test, judged)])


def process(trial: Trial, published: Published) -> list[Row]:
    """Ours: a new phone, all networks known, ``size`` of them measured. The variant is label and selection."""
    label, method = trial.variant.split(", ")
    latency_ms = published.latency_ms(label)
    found = []
    for by_model in (False, True) if trial.size == 10 and method == "random" else (False,):
        train, test = split_phones(published, trial.seed, by_model=by_model)
        signature = choose_signature(method, latency_ms[train], trial.size, trial.seed)
        model = fit_ours(published, latency_ms[train], signature, trial.seed)
        reach = calibrate_ours(model, published, trial).known
        predicted, likeness = model.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        row = _with_interval(predicted, latency_ms[test], judged, reach)
        found.append({"models_apart": by_model, "unlike": float(likeness.unlike.mean()), **row})
    return found


def _with_interval(predicted: Predicted, actual_ms: np.ndarray, judged: np.ndarray, reach: float) -> Row:
    mean, half = predicted.mean[:, judged], reach * predicted.deviation[:, judged]
    return metrics(np.exp(mean), actual_ms[:, judged], np.exp(mean - half), np.exp(mean + half))


def unseen_networks(trial: Trial, published: Published) -> list[Row]:
    """A new phone and 30 % of the networks that no phone ran. The variant is a label."""
    latency_ms = published.latency_ms(trial.variant)
    train, test = split_phones(published, trial.seed)
    known, unseen = split_networks(published.networks, trial.seed)
    table = latency_ms[np.ix_(train, known)]
    signature = choose_signature("prediction_error", table, trial.size, trial.seed)
    model = fit_ours(published, table, signature, trial.seed, known)
    reach = calibrate_ours(model, published, trial, known).unseen
    described = model.networks.describe(unseen.tolist())
    predicted, _ = model.new_devices(signature, latency_ms[np.ix_(test, known[signature])], described)
    actual = latency_ms[np.ix_(test, np.concatenate([known, unseen]))]
    ours = {"model": "ours", **_with_interval(predicted, actual, np.arange(len(known), published.networks), reach)}
    paper = fit_paper_trees(table, published.padded_layers[known], signature)
    trees = paper.predict(latency_ms[np.ix_(test, known[signature])], published.padded_layers[unseen])
    return [ours, {"model": "paper", **metrics(trees, latency_ms[np.ix_(test, unseen)])}]


def held_out_cluster(trial: Trial, published: Published) -> list[Row]:
    """Table I: phones of two clusters to learn from, those of the third to test on. The variant is cluster and selection."""
    cluster, method = trial.variant.split(", ")
    latency_ms = published.mean_ms
    clusters = speed_clusters(latency_ms)
    train, test = np.flatnonzero(clusters != cluster), np.flatnonzero(clusters == cluster)
    signature = choose_signature(method, latency_ms[train], trial.size, trial.seed)
    features = published.padded_layers
    found = [
        {"model": "trees", **_trees(latency_ms, features, train, test, signature)},
        {"model": LOGARITHMIC, **_trees_of_ratios(latency_ms, features, train, test, signature)},
    ]
    if trial.seed < OURS_IN_TABLE_I:
        model = fit_ours(published, latency_ms[train], signature, trial.seed)
        predicted, likeness = model.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        row = metrics(predicted.latency_ms[:, judged], latency_ms[np.ix_(test, judged)])
        found.append({"model": "ours", "unlike": float(likeness.unlike.mean()), **row})
    return found


OURS_IN_TABLE_I = 5
"""Random signatures for which ours is fitted."""


def sizes_of_process(trial: Trial, published: Published) -> list[Row]:
    """Ours with random signatures of several sizes, variances fitted to 10 and adjusted to each."""
    latency_ms = published.mean_ms
    train, test = split_phones(published, trial.seed)
    order = np.random.default_rng(trial.seed).permutation(published.networks)
    model = fit_ours(published, latency_ms[train], order[:10], trial.seed)
    found = []
    for size in SIZES:
        signature = order[:size]
        adjusted = refitted(model, signature, seed=trial.seed)
        predicted, _ = adjusted.new_devices(signature, latency_ms[np.ix_(test, signature)])
        judged = others(published.networks, signature)
        found.append({"size": size, **metrics(predicted.latency_ms[:, judged], latency_ms[np.ix_(test, judged)])})
    return found


SIZES = (1, 2, 3, 5, 10, 20, 30)
"""Of signatures, Fig. 11."""

EXPERIMENTS: Mapping[str, Callable[[Trial, Published], Sequence[Row]]] = {
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


def compute(trial: Trial, published: Published) -> list[Row]:
    """The rows of a trial; numbers that are not finite become None."""
    rows: list[Row] = plain(EXPERIMENTS[trial.experiment](trial, published))
    return rows
