"""The members of a forecast: priors that are each right for some devices, and the simplest regression.

``learned``
    What the pool's platforms of the kind are like.
``tied``
    One mean for all prices of a FLOP, one for those of an element, and wide deviations: a device whose libraries are unlike
    those of the pool, as many GPUs are.
``unmeasured``
    The learned prior before anything was measured, for devices whose measured networks are unusual.
``flops and memory``
    Non-negative regression on FLOPs, elements moved and a constant.
``flops, memory and image``
    The same, and elements of the image: of NPUs alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from latcast.predictors.network_features import BASE_TERMS, LIKE_TERMS, TERM_NAMES, TERM_UNITS
from latcast.predictors.platform_posterior import Observed, Posterior, Prior, linearised

if TYPE_CHECKING:
    from latcast.devices.device_model import DeviceModel

TERM_COUNT = len(TERM_NAMES)

FLOPS_AND_MEMORY = "flops and memory"
"""The member that is a regression on FLOPs, elements moved and a constant."""

AND_IMAGE = "flops, memory and image"
"""The same with a price of its own for elements of the image, on NPUs: they lay it out anew, with few channels of many used."""

FEWEST_FOR_IMAGES = 12
"""Measured networks from which on images have that price."""


@dataclass(frozen=True)
class Candidate:
    """A member after what was measured.

    Attributes:
        name: Of the member.
        mean, covariance, noise, scale: See :class:`latcast.predictors.device_forecast.Member`.
        score: How well it predicts each measured network from the others; see :func:`left_out_score`.
        error: (networks,) logarithm of what was measured over what the others predict.
        weight: (networks,) Student's weight of each: well below 1 where it does not fit.
        prior_covariance: Of the state, before anything was measured.
        own: (known networks,) see :class:`latcast.predictors.device_forecast.Member`.
    """

    name: str
    mean: np.ndarray
    covariance: np.ndarray
    noise: float
    scale: float
    score: float
    error: np.ndarray
    weight: np.ndarray
    prior_covariance: np.ndarray
    own: np.ndarray | None = None

    @classmethod
    def of(cls, name: str, prior: Prior, found: Posterior) -> Candidate:
        score = left_out_score(found.left_out_error)
        return cls(
            name, found.mean, found.covariance, prior.noise, found.scale, score, found.left_out_error, found.weights,
            prior.covariance,
        )  # fmt: skip


LEAST_ERROR = 0.02
"""Mean logarithmic error below which members are alike: latencies are not known better."""


def left_out_score(error: np.ndarray) -> float:
    """Return the logarithm of a member's evidence: the less, the farther off it is on networks left out, on average.

    Args:
        error: (networks,) logarithm of what was measured over what the others predict.
    """
    return -len(error) * float(np.log(np.minimum(np.abs(error), 1.0).mean() + LEAST_ERROR)) if len(error) else 0.0


PriorOf = Callable[["DeviceModel", str, Mapping[str, float]], Prior]
"""(model, kind, covariates) -> the prior."""

LEVEL_DEVIATION, BASE_DEVIATION, OWN_DEVIATION = 1.5, 1.0, 0.7
"""Deviations of the tied prior's logarithms: of the whole device; each of FLOPs, elements, weights, counts; of a coefficient."""

_COMMON = {
    base: [TERM_NAMES.index(name) for name in names]
    for base, names in enumerate(
        (
            ("flops pointwise", "flops conv 3x3", "flops conv kxk"), ("moved conv", "moved elementwise", "moved depthwise"),
            ("weights conv", "weights linear"), ("kernels conv", "kernels elementwise", "kernels depthwise"),
        )
    )
}  # fmt: skip
"""Terms whose mean stands for all of their base."""

_SAME_BASE = (BASE_TERMS[:, None] == BASE_TERMS[None]).astype(float)


class Stated(NamedTuple):
    """The price of a term under a runtime, before anything was measured.

    Attributes:
        log_price: Logarithm of it over the price of the term that it is like; over that of ``TERM_UNITS`` where it is ``own``.
        deviation: Standard deviation of that.
        own: Whether it does not follow the other's: the runtime has code of its own.
        one_thread: Whether one thread computes it, whatever the platform's number of threads.
    """

    log_price: float
    deviation: float
    own: bool = False
    one_thread: bool = False

    def log_over(self, followed: float, covariates: Mapping[str, float]) -> float:
        """Return the logarithm of the price on a platform where that of the term that it is like is ``followed``."""
        serial = math.log(2) * covariates.get("cpu threads", 0.0) if self.one_thread else 0.0
        return self.log_price + serial + (0.0 if self.own else followed)


PRICED_AS: Mapping[str, str] = {
    **LIKE_TERMS, "flops grouped": "flops conv 3x3",
    "flops matmul": "flops linear", "moved matmul": "moved conv", "moved normalisation": "moved elementwise",
}  # fmt: skip
"""Terms to those that their price follows."""

_GROUP_BY_GROUP = {
    "runtime tflite, precision cpu int8": Stated(3.4, 0.6, one_thread=True),
    "runtime tflite, kind cpu": Stated(2.8, 0.3, one_thread=True), "npu npu=drp-ai": Stated(2.0, 0.9, own=True),
}  # fmt: skip

STATED_UNDER: Mapping[str, Mapping[str, Stated | None]] = {
    "flops linear": {"runtime ncnn": None},
    "flops volume": {
        "runtime qairt": Stated(0.4, 0.3), "runtime onnxruntime": Stated(0.4, 0.3), "runtime openvino": Stated(0.0, 0.3),
        "runtime pytorch": Stated(1.6, 0.5), "runtime tflite qairt": Stated(-3.5, 0.5, own=True),
    },
    "flops grouped": {**_GROUP_BY_GROUP, "runtime pytorch": Stated(0.2, 0.6), "runtime tflite, kind gpu": Stated(1.1, 0.3)},
    "flops grouped wide": _GROUP_BY_GROUP,
    "flops depthwise kxk": {"npu npu=drp-ai": Stated(2.0, 2.5)},
    "flops matmul": {"runtime tflite ethos-u": Stated(2.3, 1.0, own=True), "kind npu": None},
    "moved matmul": {"kind npu": None},
    "moved normalisation": {"kind npu": None}, "moved image": {"kind npu": None}, "moved resize": {"kind npu": None},
    "moved join": {"kind npu": None},
}  # fmt: skip
"""Term of :data:`PRICED_AS` to beginnings of covariates, all of which a platform has, and the price there; None where that is
learned. ncnn takes one row of a linear layer after another, at a third of the speed of its 1x1 convolutions. TFLite on Qualcomm's
NPUs emulates volumes: 3 ns for 1,000 FLOPs on nine chips in fp16 and int8, 6 to 70 times as long as their arithmetic takes.
TFLite's loop over groups on CPUs runs in one thread and takes 16 times as long a FLOP as dense convolutions do there, in int8 30
times (84 platforms of six phones), on GPUs three times as long (six phones); PyTorch's code is that of dense ones. Renesas's
DRP-AI leaves these to a CPU, 0.4 to 1.7 ns a FLOP on three chips, and depthwise ones of 5x5 on the two older ones. Vela leaves
products of two activations to the CPU beside an Ethos-U: about 1 ns a FLOP (one network on one chip). Other NPUs have units of
their own for products and for normalisations."""

STATED_ELSEWHERE: Mapping[str, Stated | None] = {
    "flops linear": Stated(0.0, 0.03), "flops volume": Stated(0.7, 1.0), "flops grouped": None,
    "flops grouped wide": Stated(0.0, 0.03), "flops depthwise kxk": Stated(0.0, 0.03), "flops matmul": Stated(0.0, 0.3),
    "moved matmul": Stated(0.0, 0.3), "moved normalisation": Stated(0.0, 0.3), "moved image": Stated(0.0, 0.03),
    "moved resize": Stated(0.0, 0.03), "moved join": Stated(0.0, 0.03),
}  # fmt: skip
"""The same of runtimes that are not named there. Of volumes, few have code as good as for images, and some emulate them. Products
of activations, and normalisations, are a few percent of most networks' work: a free price explains whatever else these are slow
in, and is e^3 to e^5 too high for a transformer."""


def stated_prices(covariates: Mapping[str, float]) -> tuple[Stated | None, ...]:
    """Return what is stated of each term of :data:`PRICED_AS` under a platform's runtime."""

    def holds(beginnings: str) -> bool:
        return all(any(name.startswith(each) for name in covariates) for each in beginnings.split(", "))

    def stated(term: str) -> Stated | None:
        named = (found for beginnings, found in STATED_UNDER[term].items() if holds(beginnings))
        return next(named, STATED_ELSEWHERE[term])

    return tuple(stated(term) for term in PRICED_AS)


def priced_alike(prior: Prior, covariates: Mapping[str, float]) -> Prior:
    """Give terms the prices of those that they are like, as far as the runtime does."""
    mean, covariance = prior.mean.copy(), prior.covariance.copy()
    for (term, like), stated in zip(PRICED_AS.items(), stated_prices(covariates), strict=True):
        if stated is None:
            continue
        place, other = TERM_NAMES.index(term), TERM_NAMES.index(like)
        follows = 0.0 if stated.own else 1.0
        mean[place] = stated.log_over(mean[other], covariates)
        covariance[place] = follows * covariance[other]
        covariance[:, place] = follows * covariance[:, other]
        covariance[place, place] += stated.deviation**2
    return replace(prior, mean=mean, covariance=covariance)


def priced_as(
    state: np.ndarray, covariates: Mapping[str, float], stated: Sequence[Stated | None], instead_of: Sequence[Stated | None]
) -> np.ndarray:
    """Return a platform's state, (state,), with what is stated of another runtime.

    Args:
        state, covariates: Of the platform.
        stated: Of the other runtime; see :func:`stated_prices`.
        instead_of: What is stated of its own: prices of which the same is stated stay.
    """
    found = state
    for (term, like), here, there in zip(PRICED_AS.items(), stated, instead_of, strict=True):
        if here is not None and here != there:
            found = found.copy() if found is state else found
            followed = float(state[TERM_NAMES.index(like)])
            found[TERM_NAMES.index(term)] = here.log_over(followed, covariates)
    return found


def stated_variance(stated: Sequence[Stated | None]) -> np.ndarray:
    """Return the variances of the prices that are stated of a runtime, (terms,); 0 of others."""
    found = np.zeros(TERM_COUNT)
    for term, each in zip(PRICED_AS, stated, strict=True):
        if each is not None:
            found[TERM_NAMES.index(term)] = each.deviation**2
    return found


def on_diagonal(variance: np.ndarray, size: int) -> np.ndarray:
    """Return a covariance of a state, (size, size), from the variances of its prices, (terms,)."""
    return np.diag(np.append(variance, np.zeros(size - len(variance))))


def with_stated_prices(found: Candidate, covariates: Mapping[str, float], terms: np.ndarray) -> Candidate:
    """Give a regression what is stated of the runtime, for kernels that are most of no measured network's work.

    Args:
        found: The regression.
        covariates: Of the platform.
        terms: (measured networks, terms).
    """
    half = terms[:, BASE_TERMS == 0].sum(axis=1) / 2
    fitted = [(terms[:, TERM_NAMES.index(term)] > half).any() for term in PRICED_AS]
    open_prices = [None if known else each for known, each in zip(fitted, stated_prices(covariates), strict=True)]
    covariance = on_diagonal(stated_variance(open_prices), len(found.mean))
    mean = priced_as(found.mean, covariates, open_prices, [None] * len(open_prices))
    return replace(found, mean=mean, covariance=covariance, prior_covariance=covariance)


def learned(model: DeviceModel, kind: str, covariates: Mapping[str, float]) -> Prior:
    """Return the learned prior."""
    return model.prior(kind, covariates)


def tied(model: DeviceModel, kind: str, covariates: Mapping[str, float]) -> Prior:
    """Return a prior with one mean for the coefficients of each base."""
    found = model.kinds[kind]
    mean = model.mean(covariates)
    by_base = mean.copy()
    for base, places in _COMMON.items():
        by_base[:TERM_COUNT][base == BASE_TERMS] = mean[places].mean()
    covariance = LEVEL_DEVIATION**2 + BASE_DEVIATION**2 * _SAME_BASE + OWN_DEVIATION**2 * np.eye(TERM_COUNT)
    return priced_alike(Prior(by_base, model.with_process(covariance, found), found.noise), covariates)


MEMBERS: Mapping[str, PriorOf] = MappingProxyType({"learned": learned, "tied": tied})


def unmeasured(prior: Prior, observed: Observed) -> Candidate:
    """Return a prior that the measured networks judge, and do not change."""
    error = observed.log_ms - linearised(prior.mean, observed.terms, observed.basis)[0]
    score = left_out_score(error)
    return Candidate(
        "unmeasured", prior.mean, prior.covariance, prior.noise, 1.0, score, error, np.ones(len(error)), prior.covariance
    )


ROBUST = 0.3
REWEIGHTINGS = 6


def _nonnegative(design: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solve non-negative least squares of a few columns by trying every choice of columns."""
    count = design.shape[1]
    best, best_cost = np.zeros(count), np.inf
    for columns in (np.array(chosen) for size in range(count, 0, -1) for chosen in combinations(range(count), size)):
        solution = np.linalg.lstsq(design[:, columns], target, rcond=None)[0]
        if (solution >= 0).all():
            cost = float(((design[:, columns] @ solution - target) ** 2).sum())
            if cost < best_cost - 1e-12:
                best, best_cost = np.zeros(count), cost
                best[columns] = solution
    return best


def fit_totals(totals: np.ndarray, latency_ms: np.ndarray) -> np.ndarray:
    """Fit non-negative prices of a FLOP, an element, a network and more, (totals,), robustly; of a FLOP alone with under three
    networks."""
    if len(latency_ms) < 3:
        return np.append(np.exp(np.median(np.log(latency_ms / totals[:, 0]))), np.zeros(totals.shape[1] - 1))
    unit = totals.mean(axis=0)
    scaled = totals / unit
    weight = 1 / latency_ms
    for _ in range(REWEIGHTINGS):
        found = _nonnegative(scaled * weight[:, None], latency_ms * weight)
        expected = np.maximum(scaled @ found, latency_ms / 50)
        error = np.abs(np.log(expected / latency_ms))
        weight = np.sqrt(np.minimum(1, ROBUST / np.maximum(error, 1e-9)) / (latency_ms * expected))
    return np.asarray(found / unit)


MOST_PARTS = 10
"""Into which measured networks are split to judge a regression."""


_IMAGE = TERM_NAMES.index("moved image")


def regressions(
    kind: str, covariates: Mapping[str, float], totals: np.ndarray, terms: np.ndarray, log_ms: np.ndarray, basis: int
) -> list[Candidate]:
    """Return the regressions of a device's kind of unit, with what is stated of its runtime; arguments as below."""
    found = [flops_and_memory(totals, log_ms, basis)]
    if kind == "npu" and len(log_ms) >= FEWEST_FOR_IMAGES:
        found.append(flops_and_memory(totals, log_ms, basis, terms[:, _IMAGE] / TERM_UNITS[_IMAGE]))
    return [with_stated_prices(each, covariates, terms) for each in found]


def flops_and_memory(totals: np.ndarray, log_ms: np.ndarray, basis: int, image: np.ndarray | None = None) -> Candidate:
    """Regress on FLOPs, elements and a constant, as a state without uncertainty.

    Args:
        totals: (networks, 3) of :class:`latcast.predictors.network_features.NetworkFeatures`.
        log_ms: (networks,).
        basis: Size of the process's basis.
        image: (networks,) elements of the image, where these have a price of their own.
    """
    totals = totals if image is None else np.column_stack([totals, image])
    count = len(log_ms)
    latency_ms = np.exp(log_ms)
    prices = fit_totals(totals, latency_ms)
    error = np.full(count, 0.5)
    parts = min(count, MOST_PARTS)
    part = np.arange(count) % max(parts, 1)
    for each in range(parts if count > 1 else 0):
        out = part == each
        fitted = fit_totals(totals[~out], latency_ms[~out])
        error[out] = log_ms[out] - np.log(np.maximum(totals[out] @ fitted, latency_ms.min() / 50))
    deviation = max(float(np.median(np.abs(error))) / 0.67, 0.02)
    state = np.zeros(TERM_COUNT + basis)
    price = np.where(BASE_TERMS == 0, prices[0], np.where(BASE_TERMS <= 2, prices[1], np.where(BASE_TERMS == 4, prices[2], 0.0)))
    state[:TERM_COUNT] = np.log(np.maximum(price / TERM_UNITS, 1e-9))
    if image is not None:
        state[_IMAGE] = np.log(max((prices[1] + prices[3]) / TERM_UNITS[_IMAGE], 1e-9))
    score = left_out_score(error)
    certain = np.zeros((len(state), len(state)))
    return Candidate(
        FLOPS_AND_MEMORY if image is None else AND_IMAGE, state, certain, deviation, 1.0, score, error, np.ones(count), certain,
    )  # fmt: skip
