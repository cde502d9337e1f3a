"""The experiments of Ganesan et al., and ours beside them: each computes the rows of a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from papers.harness import plain
from papers.iiswc20.known_phones import PhoneForecasts, PhoneModel
from papers.iiswc20.paper import FIGURE_13_PHONE
from papers.iiswc20.protocol import (
    PhoneTrial,
    Row,
    choose_signature,
    metrics,
    split_networks,
    split_phones,
)
from papers.iiswc20.published import PublishedPhones, speed_clusters
from papers.iiswc20.trees import GridBoosting, fit_paper_trees, static_features

DEVICES = 50
STEPS = (2, 5, 10, 20, 30, 40, 50)
"""Numbers of devices at which the collaboration is judged, Fig. 12."""

TREES, OURS_OF = "trees", "ours of "
"""Variants: the paper's trees with every number of devices, or ours with one."""

OWN_MEASUREMENTS = 10
"""Beside the signature, Fig. 13."""

ISOLATED_SIZES = (10, 20, 40, 60, 80, 100, 110)


def signature_of_all(published: PublishedPhones) -> np.ndarray:
    """§V-A: chosen by MIS from all phones and networks."""
    return choose_signature("mutual_information", published.mean_ms, 10, 0)


def contributed(published: PublishedPhones, signature: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which phones take part, in their order, and (phones, networks) what each measured beside the signature."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(published.phones))[:DEVICES]
    rest = np.setdiff1d(np.arange(published.networks), signature)
    cells = np.zeros((len(order), published.networks), dtype=bool)
    for row in cells:
        row[rng.permutation(rest)[: int(share * published.networks)]] = True
    return order, cells


def collaborative(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
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
            predicted = predict_missing(phones, measured, published, signature, seed=trial.seed)
            found.append(_row("ours", count, predicted, latency_ms, unmeasured))
    return found


def _row(model: str, count: int, predicted: np.ndarray, latency_ms: np.ndarray, unmeasured: np.ndarray) -> Row:
    all_cells = metrics(predicted, latency_ms)
    return {"model": model, "devices": count, "r2_all": all_cells["r2"], **metrics(predicted[unmeasured], latency_ms[unmeasured])}


def predict_missing(
    phones: np.ndarray, measured: np.ndarray, published: PublishedPhones, signature: Sequence[int] | np.ndarray, *, seed: int
) -> np.ndarray:
    """(phones, networks) ours: measured cells as they are, the others predicted."""
    latency_ms = published.mean_ms[phones]
    table = np.where(measured, latency_ms, np.nan)
    table[:, signature] = latency_ms[:, signature]
    model = PhoneModel.fitted(published, phones, table, seed)
    known = [np.flatnonzero(np.isfinite(values)) for values in table]
    expected = [model.of(int(row), cells, values[cells])[0] for row, cells, values in zip(phones, known, table, strict=True)]
    return np.where(np.isnan(table), np.exp(expected), table)


def isolated(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Fig. 13: Redmi Note 5 Pro in a collaboration of 50 phones with 20 measurements each, and on its own.

    There are several phones of the model, which the seeds take in turn.
    """
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
            ours = predict_missing(order, measured, published, signature, seed=trial.seed)[:1]
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
    which = {"phone": published.phones[phone].partition("/")[0], "slowed_networks": published.slowed_networks(phone)}
    return [which | row for row in found]


LOGARITHMIC = "logarithms of ratios"
"""The paper's trees on the logarithm of latency over the signature's mean, so that they need not extrapolate."""


@dataclass(frozen=True)
class NewPhones:
    """Known phones, and new ones of which the networks of a signature are measured; the others are judged.

    Attributes:
        latency_ms: (phones, networks).
        train, test: Rows of the known and of the new phones.
        signature: Columns.
    """

    latency_ms: np.ndarray
    train: np.ndarray
    test: np.ndarray
    signature: np.ndarray

    @classmethod
    def of(cls, latency_ms: np.ndarray, split: tuple[np.ndarray, np.ndarray], method: str, size: int, seed: int) -> NewPhones:
        """With the signature that a method selects by the known phones."""
        return cls(latency_ms, *split, choose_signature(method, latency_ms[split[0]], size, seed))

    @property
    def judged(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.latency_ms.shape[1]), self.signature)

    @property
    def signature_ms(self) -> np.ndarray:
        return np.asarray(self.latency_ms[np.ix_(self.test, self.signature)])

    @property
    def actual_ms(self) -> np.ndarray:
        return np.asarray(self.latency_ms[np.ix_(self.test, self.judged)])


def static(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Fig. 8: the paper's trees on static features of the hardware. Variants: features as published; those of other phones,
    dealt out at random; no phones of one model on both sides; no phones of one CPU on both sides."""
    latency_ms = published.mean_ms
    train, test = split_phones(published, trial.seed, by_model=trial.variant == "models apart")
    if trial.variant == "CPUs apart":
        cpus = [str(device.get("cpu_code")) for device in published.hardware]
        names = sorted(set(cpus))
        order = np.random.default_rng(trial.seed).permutation(len(names))
        held_out = {names[index] for index in order[: round(0.3 * len(names))]}
        inside = np.array([cpu in held_out for cpu in cpus])
        train, test = np.flatnonzero(~inside), np.flatnonzero(inside)
    features = static_features([published.hardware[index] for index in train], published.hardware)
    if trial.variant == "rows exchanged":
        features = features[np.random.default_rng(trial.seed).permutation(len(features))]
    trees = GridBoosting(features[train], published.padded_layers, latency_ms[train])
    return [metrics(trees.predict(features[test], published.padded_layers), latency_ms[test])]


def selection(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Figs. 9 to 11: the paper's trees with a signature of the variant's selection. Rows of the split that keeps phones of one
    model on one side are marked."""
    found = []
    for by_model in (False, True) if trial.size == 10 and trial.variant != "prediction_error" else (False,):
        split = split_phones(published, trial.seed, by_model=by_model)
        phones = NewPhones.of(published.mean_ms, split, trial.variant, trial.size, trial.seed)
        found.append({"models_apart": by_model, **_trees(phones, published.padded_layers)})
    return found


def random_signature(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Fig. 10: one of 100 random signatures; the seed is the signature's, the split is the first."""
    phones = NewPhones.of(published.mean_ms, split_phones(published, 0), "random", trial.size, trial.seed)
    return [_trees(phones, published.padded_layers)]


def _trees(phones: NewPhones, features: np.ndarray) -> Row:
    """Return the paper's protocol: the signature's networks are neither learned from nor tested on."""
    model = fit_paper_trees(phones.latency_ms[phones.train], features, phones.signature)
    return metrics(model.predict(phones.signature_ms, features[phones.judged]), phones.actual_ms)


def _ours(phones: NewPhones, model: PhoneModel, *, calibrated: bool = False, effects: bool = False) -> Row:
    """Ours on the networks that were not measured; with what known phones say of each network beside it where asked."""
    found = model.new_phones(phones.test, phones.signature, phones.signature_ms)
    if effects:
        known = model.network_effects(phones.train, phones.signature, phones.latency_ms[phones.train])
        found = PhoneForecasts(found.mean + known, found.deviation)
    bounds = [part[:, phones.judged] for part in found.bounds_ms] if calibrated else []
    return metrics(found.latency_ms[:, phones.judged], phones.actual_ms, *bounds)


def new_phones(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Ours: a new phone, all networks known, ``size`` of them measured. The variant is label and selection."""
    label, method = trial.variant.split(", ")
    latency_ms = published.latency_ms(label)
    found = []
    for by_model in (False, True) if trial.size == 10 and method == "random" else (False,):
        split = split_phones(published, trial.seed, by_model=by_model)
        phones = NewPhones.of(latency_ms, split, method, trial.size, trial.seed)
        model = PhoneModel.fitted(published, phones.train, latency_ms[phones.train], trial.seed, calibrated=True)
        found.append({"models_apart": by_model, "model": "ours", **_ours(phones, model, calibrated=True)})
        if not by_model:
            found.append({"models_apart": False, "model": WITH_EFFECTS, **_ours(phones, model, calibrated=True, effects=True)})
    return found


WITH_EFFECTS = "ours, with what known phones say of each network"


def unseen_networks(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Return a new phone and 30 % of the networks that no phone ran. The variant is a label."""
    latency_ms = published.latency_ms(trial.variant)
    train, test = split_phones(published, trial.seed)
    known, unseen = split_networks(published.networks, trial.seed)
    table = latency_ms[np.ix_(train, known)]
    signature = choose_signature("prediction_error", table, trial.size, trial.seed)
    known_ms = latency_ms[train].copy()
    known_ms[:, unseen] = np.nan
    model = PhoneModel.fitted(published, train, known_ms, trial.seed, calibrated=True)
    signature_ms = latency_ms[np.ix_(test, known[signature])]
    predicted = model.new_phones(test, known[signature], signature_ms)
    actual_ms = latency_ms[np.ix_(test, unseen)]
    ours = metrics(predicted.latency_ms[:, unseen], actual_ms, *(part[:, unseen] for part in predicted.bounds_ms))
    paper = fit_paper_trees(table, published.padded_layers[known], signature)
    trees_ms = paper.predict(signature_ms, published.padded_layers[unseen])
    return [{"model": "ours", **ours}, {"model": "paper", **metrics(trees_ms, actual_ms)}]


def held_out_cluster(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Table I: phones of two clusters to learn from, those of the third to test on. The variant is cluster and selection."""
    cluster, method = trial.variant.split(", ")
    clusters = speed_clusters(published.mean_ms)
    split = np.flatnonzero(clusters != cluster), np.flatnonzero(clusters == cluster)
    phones = NewPhones.of(published.mean_ms, split, method, trial.size, trial.seed)
    log_ms = np.log(phones.latency_ms)
    level = log_ms[:, phones.signature].mean(axis=1, keepdims=True)
    described = np.hstack([level, log_ms[:, phones.signature] - level])
    target = (log_ms - level)[phones.train]
    target[:, phones.signature] = np.nan
    trees = GridBoosting(described[phones.train], published.padded_layers, target)
    predicted = np.exp(trees.predict(described[phones.test], published.padded_layers[phones.judged]) + level[phones.test])
    found = [
        {"model": "trees", **_trees(phones, published.padded_layers)},
        {"model": LOGARITHMIC, **metrics(predicted, phones.actual_ms)},
    ]
    if trial.seed < OURS_IN_TABLE_I:
        model = PhoneModel.fitted(published, phones.train, phones.latency_ms[phones.train], trial.seed)
        found.append({"model": "ours", **_ours(phones, model)})
    return found


OURS_IN_TABLE_I = 5
"""Random signatures for which ours is fitted."""


def sizes(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Ours with random signatures of several sizes, those that leave networks to judge on."""
    train, test = split_phones(published, trial.seed)
    order = np.random.default_rng(trial.seed).permutation(published.networks)
    model = PhoneModel.fitted(published, train, published.mean_ms[train], trial.seed, calibrated=True)
    found = []
    for size in (each for each in SIZES if each < published.networks):
        phones = NewPhones(published.mean_ms, train, test, order[:size])
        found.append({"size": size, **_ours(phones, model, calibrated=True)})
    return found


SIZES = (1, 2, 3, 5, 10, 20, 30)
"""Of signatures, Fig. 11."""

EXPERIMENTS: Mapping[str, Callable[[PhoneTrial, PublishedPhones], Sequence[Row]]] = {
    "static": static,
    "selection": selection,
    "random signature": random_signature,
    "new phones": new_phones,
    "sizes": sizes,
    "unseen networks": unseen_networks,
    "held-out cluster": held_out_cluster,
    "collaborative": collaborative,
    "isolated": isolated,
}


def compute(trial: PhoneTrial, published: PublishedPhones) -> list[Row]:
    """Return the rows of a trial; numbers that are not finite become None."""
    rows: list[Row] = plain(EXPERIMENTS[trial.experiment](trial, published))
    return rows
