"""Writing the files that come with the package: the model of devices and the pool; their readers say how they are laid out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latcast.devices import device_model_file
from latcast.devices.device_model import TERM_COUNT, DeviceModel
from latcast.errors import BundleError
from latcast.folders import replacing
from latcast.predictors import pool_file
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.network_features import TERM_NAMES
from latcast.predictors.network_memory import SAME
from latcast.predictors.platform_predictor import PlatformPredictor

MOST_LOG_MS = 30.0
"""Largest logarithm of a latency in milliseconds that is kept, in thousandths."""

MOST_DIRECTIONS = 12
"""Directions kept of a covariance."""

LEAST_DIRECTION = 1e-8
"""Variance of the mean network's logarithm that a direction must have taken away to be kept."""

RIDGE = 1e-3
"""Part of the mean added to networks' second moments, so that no direction counts for nothing."""

_NOTHING = np.zeros(0)


def save_device_model(model: DeviceModel, path: Path | str) -> Path:
    """Write a model, in single precision; symmetric matrices as their lower halves."""
    place = {name: index for index, name in enumerate(model.covariates)}
    known = [(row, place[name], value) for row, each in enumerate(model.platforms) for name, value in each.covariates.items()]
    rows, columns, values = (np.array(part) for part in zip(*known, strict=True)) if known else (_NOTHING,) * 3
    arrays: dict[str, np.ndarray] = {
        **{name: array.astype(np.float32) for name, array in model.basis.arrays().items()},
        "effects": model.effects.astype(np.float32),
        "states": model.states.astype(np.float32),
        "covariate.row": rows.astype(np.int32),
        "covariate.column": columns.astype(np.int32),
        "covariate.value": values.astype(np.float32),
    }
    measured = [
        np.concatenate([getattr(each, name) for each in model.platforms] or [_NOTHING]) for name in ("networks", "log_ms")
    ]
    arrays |= {
        "known.terms": model.known_terms.astype(np.float32),
        "known.basis": model.known_basis.astype(np.float32),
        "row.start": np.cumsum([0, *(len(each.networks) for each in model.platforms)]).astype(np.int32),
        "row.network": measured[0].astype(np.int32),
        "row.log_ms": np.rint(np.clip(measured[1], -MOST_LOG_MS, MOST_LOG_MS) * 1000).astype(np.int16),
    }
    arrays["known.places"] = model.known_places.astype(np.float32)
    arrays |= {f"known.offsets.{name}": found.astype(np.float16) for name, found in model.known_offsets.items()}
    for name, kind in model.kinds.items():
        arrays[f"{name}.covariance"] = kind.covariance[np.tril_indices(TERM_COUNT)].astype(np.float32)
    header = {
        "schema": device_model_file.SCHEMA,
        "terms": TERM_NAMES,
        "covariates": model.covariates,
        "kinds": {name: [kind.network_scale, kind.kernel_scale, kind.noise] for name, kind in model.kinds.items()},
        "platforms": [[each.name, each.kind, each.silicon, each.source] for each in model.platforms],
        "explained": dict(model.explained),
        "signature": [each.to_json() for each in model.signature],
        "arbitration": {
            name: [
                [
                    each.measured,
                    *([{k: round(v, 5) for k, v in part.weights.items()}, *part[1:]] for part in (each.new, each.known)),
                ]
                for each in listed
            ]
            for name, listed in model.arbitration.items()
        },
    }
    return _write(path, arrays, "model", header)


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
    measured, latencies, residuals = [], [], []
    for memory in (forecast.memory for forecast in forecasts):
        nearest, alike = memory.nearest(memory.measured_places)
        kept, rows = np.unique(nearest[alike > SAME], return_index=True)
        measured.append(kept)
        latencies.append(memory.measured_ms[alike > SAME][rows])
        residuals.append(memory.measured_residual[alike > SAME][rows])
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
        "measured.residual": np.concatenate([np.zeros(0), *residuals]).astype(np.float16),
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
        "schema": pool_file.SCHEMA,
        "terms": TERM_NAMES,
        "ids": [each.predictor.platform.id for each in platforms],
        "members": list(names),
        "networks": list(networks),
        "lineages": list(lineages),
    }
    return _write(path, arrays, "pool", index)


def _root(lost: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return U, (directions, state), with Uᵀ U near the symmetric matrix and never above it for such networks."""
    scale = np.linalg.cholesky(moments + RIDGE * np.trace(moments) / len(moments) * np.eye(len(moments)))
    values, vectors = np.linalg.eigh(scale.T @ lost @ scale)
    kept = np.argsort(-values)[:MOST_DIRECTIONS]
    kept = kept[values[kept] > LEAST_DIRECTION]
    # A thousandth less, so that rounding to half precision takes no more away than was lost.
    return np.asarray(np.linalg.solve(scale.T, vectors[:, kept] * np.sqrt(0.999 * values[kept])).T)


def _write(path: Path | str, arrays: Mapping[str, np.ndarray], name: str, header: Mapping[str, object]) -> Path:
    """Write arrays with a JSON header of that name, in one step."""
    from safetensors.numpy import save

    target = Path(path)
    content = save({key: np.ascontiguousarray(array) for key, array in sorted(arrays.items())}, {name: json.dumps(header)})
    with replacing(target) as fresh:
        fresh.write_bytes(content)
    return target
