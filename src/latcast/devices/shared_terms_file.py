"""The model of all platforms as one file: arrays in the safetensors format, all else as JSON in its header. No pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from latcast.devices.network_novelty import NetworkNovelty, TypeShares
from latcast.devices.platform_terms import PlatformTerms, TypeFactors
from latcast.devices.shared_terms import Reach, SharedTerms
from latcast.errors import BundleError, LatcastError
from latcast.folders import replacing
from latcast.kernels.rules import FusionRules
from latcast.predictors.analytical import TERMS
from latcast.predictors.regressors.gaussian_process import SizeCovariance
from latcast.reading import parse_json, parse_tensors, read_bytes
from latcast.records import Platform, Reference

SCHEMA = 1

SHIPPED = Path(__file__).with_name("shipped") / "phones.safetensors"
"""Learned from the published measurements of Li et al."""

MOST_BYTES = 50_000_000

_HEADER = "latcast"


def save_shared_terms(model: SharedTerms, path: Path | str) -> Path:
    """Writes a model; an old one at this path is replaced at once or not at all.

    Raises:
        BundleError: The card holds what JSON cannot, or the place cannot be written to.
    """
    from safetensors.numpy import save

    path = Path(path)
    arrays: dict[str, np.ndarray] = {"log_ms": model.log_ms.astype(np.float32)}
    parts = [_part_header(f"part{index}", part, arrays) for index, part in enumerate(model.parts)]
    novelty = {
        "reference": _part_header("reference", model.novelty.reference, arrays),
        "networks": model.novelty.networks,
        "known": {name: _shares_header(f"known.{name}", found, arrays) for name, found in sorted(model.novelty.known.items())},
    }
    reach = model.reach
    header = {
        "schema": SCHEMA,
        "parts": parts,
        "networks": [network.to_json() for network in model.networks],
        "novelty": novelty,
        "reach": asdict(reach),
        "card": dict(model.card),
    }
    try:
        text = json.dumps(header, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise BundleError(f"{path}: the model cannot be written: {problem}; expected a card of text and numbers") from problem
    data = save({name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}, {_HEADER: text})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(data)
    except OSError as problem:
        raise BundleError(f"{path}: cannot be written: {problem.strerror}; choose another place") from problem
    return path


def load_shared_terms(path: Path | str = SHIPPED) -> SharedTerms:
    """Reads a model.

    Raises:
        BundleError: The file is missing, damaged or of a newer schema.
    """
    path = Path(path)
    try:
        data = read_bytes(path, error=BundleError, most_bytes=MOST_BYTES)
        arrays, texts = parse_tensors(data, error=LatcastError)
        header = parse_json(texts[_HEADER], "header", error=LatcastError)
        if header["schema"] > SCHEMA:
            raise BundleError(f"{path}: found schema {header['schema']}, expected {SCHEMA} or older; update latcast to read it")
        return _model(header, arrays, str(path))
    except BundleError:
        raise
    except (LatcastError, KeyError, TypeError, ValueError, IndexError, AttributeError, OSError) as problem:
        reason = f"found no {problem}" if isinstance(problem, KeyError) else " ".join(str(problem).split())
        raise BundleError(f"{path}: {reason}; the file is damaged or no model of known platforms, get it again") from problem


def _model(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], source: str) -> SharedTerms:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"found a value in '{name}' that is not finite")
    parts = tuple(_part(f"part{index}", each, arrays, source) for index, each in enumerate(header["parts"]))
    networks = tuple(Reference.from_json(each) for each in header["networks"])
    found = header["novelty"]
    known = {name: _shares(f"known.{name}", each, arrays) for name, each in found["known"].items()}
    novelty = NetworkNovelty(_part("reference", found["reference"], arrays, source), known, int(found["networks"]))
    log_ms = arrays["log_ms"].astype(np.float64)
    model = SharedTerms(parts, networks, log_ms, novelty, _reach(header["reach"]), header["card"])
    if log_ms.shape != (len(model.platforms), len(networks)):
        raise ValueError(f"found latencies of shape {log_ms.shape}, expected {(len(model.platforms), len(networks))}")
    return model


def _reach(header: Mapping[str, Any]) -> Reach:
    levels, unseen = ([float(value) for value in header[name]] for name in ("novelty", "unseen"))
    # The shipped model names it "surprise".
    residual = header["standardised_residual"] if "standardised_residual" in header else header["surprise"]
    single = [float(header["known"]), float(residual)]
    if not levels or len(levels) != len(unseen) or levels != sorted(levels):
        raise ValueError(f"found the reach {unseen} at {levels}, expected one for each of some increasing levels")
    if not all(math.isfinite(value) and value >= 0 for value in (*single, *levels, *unseen)):
        raise ValueError("found a reach that is below 0 or no number")
    return Reach(single[0], tuple(levels), tuple(unseen), single[1], int(header["predictions"]))


def _covariance_header(covariance: SizeCovariance) -> dict[str, Any]:
    deviations = [covariance.level, covariance.path, covariance.smooth, covariance.own]
    return {"lengths": covariance.lengths.tolist(), "paths": covariance.paths, "deviations": deviations}


def _covariance(header: Mapping[str, Any]) -> SizeCovariance:
    return SizeCovariance(np.array(header["lengths"], dtype=np.float64), int(header["paths"]), *map(float, header["deviations"]))


def _part_header(name: str, part: PlatformTerms, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays[f"{name}.coefficients"] = part.coefficients.astype(np.float32)
    arrays[f"{name}.overhead_ms"] = part.overhead_ms.astype(np.float32)
    for kind, found in part.factors.items():
        arrays[f"{name}.{kind}.points"] = found.points.astype(np.int32)
        arrays[f"{name}.{kind}.weights"] = found.weights.astype(np.float16)
    return {
        "rules": part.rules.to_json(),
        "platforms": list(part.platforms),
        "classes": list(part.classes),
        "terms": list(TERMS),
        "types": {kind: _covariance_header(found.covariance) for kind, found in sorted(part.factors.items())},
    }


def _part(name: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], source: str) -> PlatformTerms:
    platforms, classes = tuple(map(str, header["platforms"])), tuple(map(str, header["classes"]))
    for platform in platforms:
        Platform.parse(platform)
    if header["terms"] != list(TERMS):
        raise ValueError(f"found the analytical terms {header['terms']}, expected {list(TERMS)}")
    coefficients = arrays[f"{name}.coefficients"].astype(np.float64)
    overhead_ms = arrays[f"{name}.overhead_ms"].astype(np.float64)
    expected = (len(platforms), len(classes) + 1, len(TERMS))
    if coefficients.shape != expected or overhead_ms.shape != expected[:1] or (coefficients < 0).any():
        raise ValueError(f"found coefficients of shape {coefficients.shape}, expected {expected} of at least 0")
    factors = {}
    for kind, each in header["types"].items():
        covariance = _covariance(each)
        points = arrays[f"{name}.{kind}.points"].astype(np.int64)
        weights = arrays[f"{name}.{kind}.weights"].astype(np.float64)
        if points.ndim != 2 or points.shape[1] != len(covariance.lengths) or weights.shape != (len(platforms), len(points)):
            raise ValueError(f"found weights of shape {weights.shape} of '{kind}' for points of shape {points.shape}")
        factors[str(kind)] = TypeFactors(covariance, points, weights)
    return PlatformTerms(FusionRules.from_json(header["rules"], source), platforms, classes, coefficients, overhead_ms, factors)


def _shares_header(name: str, found: TypeShares, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    network, point = np.nonzero(found.shares)
    arrays[f"{name}.points"] = found.points.astype(np.int32)
    arrays[f"{name}.place"] = np.stack([network, point]).astype(np.int32)
    arrays[f"{name}.share"] = found.shares[network, point].astype(np.float32)
    return {"networks": found.shares.shape[0], **_covariance_header(found.covariance)}


def _shares(name: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TypeShares:
    points = arrays[f"{name}.points"].astype(np.int64)
    covariance = _covariance(header)
    if points.ndim != 2 or points.shape[1] != len(covariance.lengths):
        raise ValueError(f"found points of shape {points.shape} in '{name}', expected {len(covariance.lengths)} sizes")
    shares = np.zeros((int(header["networks"]), len(points)))
    network, point = arrays[f"{name}.place"]
    if (network < 0).any() or (point < 0).any():
        raise ValueError(f"found a place below 0 in '{name}'")
    shares[network, point] = arrays[f"{name}.share"]
    return TypeShares(covariance, points, shares)
