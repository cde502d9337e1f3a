"""The pool as one file: platforms that others measured, each the posterior of a device, read when it is asked for.

A safetensors file that is mapped into memory. What platforms have in common is there once: the basis, the networks that they ran,
the priors' covariances. A member's covariance is kept by what its measured networks took away from that of its prior,

    P - Uᵀ U,

with those directions of U alone that count most for networks, in half precision: what is left out makes an interval wider, never
narrower.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import BundleError, LatcastError
from latcast.folders import replacing
from latcast.kernels.rules import load_rules
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import DeviceForecast, Member, NetworkMemory
from latcast.predictors.intervals import Interval
from latcast.predictors.network_features import TERM_NAMES
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.process_basis import ProcessBasis
from latcast.reading import parse_json, parse_tensors
from latcast.records import Platform

SCHEMA = 3

MOST_DIRECTIONS = 12
"""Directions kept of a covariance."""

LEAST_DIRECTION = 1e-8
"""Variance of the mean network's logarithm that a direction must have taken away to be kept."""

RIDGE = 1e-3
"""Part of the mean added to networks' second moments, so that no direction counts for nothing."""


@dataclass(frozen=True)
class PoolMember:
    """The content of a platform's entry.

    Attributes:
        predictor: With its card and forecast; all of a file share a basis and the places of their memory.
        priors: Of each member of the forecast, the covariance that it began from.
        moments: Of each, (state, state) mean squares and products of the derivatives of networks' logarithms by the state.
    """

    predictor: PlatformPredictor
    priors: tuple[np.ndarray, ...]
    moments: tuple[np.ndarray, ...]


class _Shared:
    """Arrays that many platforms have in common, each kept once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._places: dict[bytes, int] = {}

    def place(self, array: np.ndarray) -> int:
        key = array.astype(np.float32).tobytes()
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append(array)
        return self._places[key]


def save_pool(platforms: Sequence[PoolMember], path: Path | str) -> Path:
    """Write a pool; the same platforms give the same bytes.

    Args:
        platforms: At least one.
        path: Where to.
    """
    from safetensors.numpy import save

    platforms = sorted(platforms, key=lambda each: each.predictor.platform.id)
    forecasts = []
    for each in platforms:
        if each.predictor.device is None:
            raise BundleError(f"{each.predictor.platform.id} is not the posterior of a device; save it as a bundle")
        forecasts.append(each.predictor.device)
    first = forecasts[0]
    size = len(TERM_NAMES) + first.basis.size
    lower = np.tril_indices(size)
    priors, memories, owns = _Shared(), _Shared(), _Shared()
    names: dict[str, int] = {}
    networks: dict[str, int] = {}
    lineages: dict[str, int] = {}
    ran: list[list[int]] = []
    means, numbers, name_of, prior_of, own_of, roots, root_start = [], [], [], [], [], [], [0]
    about, member_start, cards = [], [0], []
    for each, forecast in zip(platforms, forecasts, strict=True):
        card = dict(each.predictor.card)
        ran.append([networks.setdefault(key, len(networks)) for key in card.pop(TRAINING_KEYS)])
        card[TRAINING_LINEAGES] = [lineages.setdefault(name, len(lineages)) for name in card.pop(TRAINING_LINEAGES)]
        cards.append(json.dumps(card, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
        for member, prior, moments in zip(forecast.members, each.priors, each.moments, strict=True):
            root = _root(prior - member.covariance, moments)
            means.append(member.mean)
            numbers.append([member.weight, member.known_weight, member.noise, member.scale])
            name_of.append(names.setdefault(member.name, len(names)))
            prior_of.append(priors.place(prior))
            own_of.append(-1 if member.own is None else owns.place(member.own))
            roots.append(root)
            root_start.append(root_start[-1] + len(root))
        member_start.append(len(means))
        interval = each.predictor.interval
        about.append(
            [forecast.network_scale, forecast.kernel_scale, *forecast.factors[0], *forecast.factors[1], forecast.measured,
             memories.place(forecast.memory.offsets), forecast.memory.explained, interval.low, interval.high, interval.networks]
        )  # fmt: skip
    measured_ms = [forecast.memory.measured_ms for forecast in forecasts]
    measured = [np.zeros(0, dtype=np.int64) if each is None else np.flatnonzero(each) for each in measured_ms]
    latencies = [each[places] for each, places in zip(measured_ms, measured, strict=True) if each is not None]
    bits = np.zeros((len(platforms), len(networks)), dtype=bool)
    known = np.array([forecast.memory.ran for forecast in forecasts])
    for row, places in enumerate(ran):
        bits[row, places] = True
    arrays: dict[str, np.ndarray] = {
        **{name: array.astype(np.float32) for name, array in first.basis.arrays().items()},
        "prior": np.array([array[lower] for array in priors.arrays], dtype=np.float32),
        "memory.places": first.memory.places.astype(np.float32),
        "memory.offsets": np.array(memories.arrays).astype(np.float16),
        "platform": np.array(about, dtype=np.float32),
        "platform.member": np.array(member_start, dtype=np.int32),
        "platform.networks": np.packbits(bits, axis=1),
        "platform.known": np.packbits(known, axis=1),
        "platform.measured": np.cumsum([0, *map(len, measured)]).astype(np.int32),
        "measured.place": np.concatenate([np.zeros(0), *measured]).astype(np.int32),
        "measured.ms": np.concatenate([np.zeros(0), *latencies]).astype(np.float32),
        "platform.card": np.cumsum([0, *map(len, cards)]).astype(np.int64),
        "card": np.frombuffer(b"".join(cards), dtype=np.uint8),
        "member.mean": np.array(means, dtype=np.float32),
        "member.numbers": np.array(numbers, dtype=np.float32),
        "member.name": np.array(name_of, dtype=np.int32),
        "member.prior": np.array(prior_of, dtype=np.int32),
        "member.own": np.array(own_of, dtype=np.int32),
        "own": np.array(owns.arrays).astype(np.float16),
        "member.root": np.array(root_start, dtype=np.int32),
        "root": np.concatenate([np.zeros((0, size)), *roots]).astype(np.float16),
    }
    index = {
        "schema": SCHEMA,
        "terms": TERM_NAMES,
        "rules": platforms[0].predictor.rules.runtime,
        "ids": [each.predictor.platform.id for each in platforms],
        "members": list(names),
        "networks": list(networks),
        "lineages": list(lineages),
    }
    target = Path(path)
    with replacing(target) as fresh:
        fresh.write_bytes(
            save({name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}, {"pool": json.dumps(index)})
        )
    return target


def _root(lost: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return U, (directions, state), with Uᵀ U near the symmetric matrix and never above it for such networks."""
    scale = np.linalg.cholesky(moments + RIDGE * np.trace(moments) / len(moments) * np.eye(len(moments)))
    values, vectors = np.linalg.eigh(scale.T @ lost @ scale)
    kept = np.argsort(-values)[:MOST_DIRECTIONS]
    kept = kept[values[kept] > LEAST_DIRECTION]
    # A thousandth less, so that rounding to half precision takes no more away than was lost.
    return np.asarray(np.linalg.solve(scale.T, vectors[:, kept] * np.sqrt(0.999 * values[kept])).T)


class PoolFile:
    """The platforms of a file; nothing of one is read before it is asked for.

    Args:
        path: Of a file that :func:`save_pool` wrote.

    Raises:
        BundleError: The file is missing, damaged or of a later version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._priors: dict[int, np.ndarray] = {}
        try:
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:
            raise BundleError(f"cannot read the pool {path}: {problem}; get the file again") from problem
        try:
            self._arrays, texts = parse_tensors(data, error=BundleError)
            index = parse_json(texts["pool"], "its index", error=BundleError)
            if index["schema"] > SCHEMA:
                raise BundleError(f"found schema {index['schema']}, expected {SCHEMA} or older; update latcast to read it")
            if tuple(index["terms"]) != TERM_NAMES:
                raise BundleError("its terms are of another version; get the file of this version")
            self._row = {str(name): row for row, name in enumerate(index["ids"])}
            self._rules, self._members = load_rules(str(index["rules"])), tuple(map(str, index["members"]))
            self._networks, self._lineages = list(map(str, index["networks"])), list(map(str, index["lineages"]))
        except (LatcastError, KeyError, TypeError, ValueError) as problem:
            raise self._damaged(problem) from problem

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, platform: object) -> bool:
        return platform in self._row

    @property
    def platforms(self) -> tuple[str, ...]:
        """Ids, sorted."""
        return tuple(self._row)

    def card(self, platform: str) -> dict[str, Any]:
        """Return the card of a platform; see :mod:`latcast.predictors.card`.

        Raises:
            BundleError: The file is damaged.
        """
        row = self._row[platform]
        try:
            start, end = self._arrays["platform.card"][row : row + 2].tolist()
            card = dict(parse_json(self._arrays["card"][start:end].tobytes(), "a card", error=BundleError))
            ran = np.unpackbits(self._arrays["platform.networks"][row], count=len(self._networks)).nonzero()[0]
            card[TRAINING_KEYS] = sorted(self._networks[place] for place in ran.tolist())
            card[TRAINING_LINEAGES] = sorted(self._lineages[place] for place in card[TRAINING_LINEAGES])
        except (LatcastError, KeyError, TypeError, ValueError, IndexError) as problem:
            raise self._damaged(problem) from problem
        return card

    def predictor(self, platform: str) -> PlatformPredictor:
        """Return the predictor of a platform.

        Raises:
            BundleError: The file is damaged.
        """
        card = self.card(platform)
        try:
            forecast, interval = self._forecast(self._row[platform])
        except (LatcastError, KeyError, TypeError, ValueError, IndexError) as problem:
            raise self._damaged(problem) from problem
        return PlatformPredictor(
            Platform.parse(platform), self._rules, forecast.analytical(), {},
            CalibrationTerms(constant_ms=forecast.constant_ms), interval, card, forecast,
        )  # fmt: skip

    def _forecast(self, row: int) -> tuple[DeviceForecast, Interval]:
        arrays = self._arrays
        first, last = arrays["platform.member"][row : row + 2].tolist()
        network_scale, kernel_scale, *four, measured, memory, explained, low, high, judged = arrays["platform"][row].tolist()
        means = arrays["member.mean"][first:last].astype(np.float64)
        numbers = arrays["member.numbers"][first:last].astype(np.float64)
        if not (np.isfinite(means).all() and np.isfinite(numbers).all() and np.isfinite(arrays["platform"][row]).all()):
            raise ValueError("found a number that is not finite")
        members = []
        for place in range(last - first):
            start, end = arrays["member.root"][first + place : first + place + 2].tolist()
            root = arrays["root"][start:end].astype(np.float32)
            covariance = self._prior(int(arrays["member.prior"][first + place])) - root.T @ root
            name = self._members[int(arrays["member.name"][first + place])]
            own_place = int(arrays["member.own"][first + place])
            own = None if own_place < 0 else arrays["own"][own_place].astype(np.float64)
            weight, known_weight, noise, scale = numbers[place].tolist()
            members.append(Member(name, weight, known_weight, means[place], covariance, noise, scale, own))
        offsets = arrays["memory.offsets"][int(memory)].astype(np.float64)
        ran = np.unpackbits(arrays["platform.known"][row], count=len(offsets)).astype(bool)
        start, end = arrays["platform.measured"][row : row + 2].tolist()
        measured_ms = np.zeros(len(offsets))
        measured_ms[arrays["measured.place"][start:end]] = arrays["measured.ms"][start:end]
        forecast = DeviceForecast(
            self._basis, network_scale, kernel_scale, tuple(members), ((four[0], four[1]), (four[2], four[3])), int(measured),
            NetworkMemory(self._places, offsets, explained, ran, measured_ms),
        )  # fmt: skip
        return forecast, Interval(low, high, int(judged), 0.0)

    @cached_property
    def _basis(self) -> ProcessBasis:
        return ProcessBasis.from_arrays(self._arrays)

    @cached_property
    def _places(self) -> np.ndarray:
        return self._arrays["memory.places"].astype(np.float64)

    def _prior(self, place: int) -> np.ndarray:
        """Return the covariance of the prior, (state, state)."""
        if place not in self._priors:
            size = len(TERM_NAMES) + self._basis.size
            found = np.zeros((size, size), dtype=np.float32)
            found[np.tril_indices(size)] = self._arrays["prior"][place]
            self._priors[place] = found + np.tril(found, -1).T
        return self._priors[place]

    def _damaged(self, problem: Exception) -> BundleError:
        return BundleError(f"{self.path}: found no pool of platforms: {problem}; get the file again")
