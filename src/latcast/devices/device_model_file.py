"""The model of devices as one file: arrays in the safetensors format, all else as JSON in its header. No pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from latcast.devices.device_model import KINDS, TERM_COUNT, Arbitration, DeviceModel, Kind, KnownPlatform, Weighing
from latcast.errors import DatasetError, LatcastError
from latcast.predictors.network_features import TERM_NAMES
from latcast.predictors.process_basis import ProcessBasis
from latcast.reading import check_schema, parse_json, parse_tensors, read_bytes
from latcast.records import Reference

SCHEMA = 3

MOST_BYTES = 50_000_000

SHIPPED = "devices.safetensors"


def load_device_model(path: Path | str | None = None) -> DeviceModel:
    """Read a model; the one that comes with the package where no path is given.

    Raises:
        DatasetError: The file is missing, damaged or of a later version.
    """
    return _shipped() if path is None else _read(Path(path))


@cache
def _shipped() -> DeviceModel:
    with resources.as_file(resources.files("latcast.devices").joinpath("shipped").joinpath(SHIPPED)) as path:
        return _read(path)


def _read(path: Path) -> DeviceModel:
    data = read_bytes(path, error=DatasetError, most_bytes=MOST_BYTES)
    try:
        arrays, metadata = parse_tensors(data, error=DatasetError)
        header = parse_json(metadata["model"], str(path), error=DatasetError)
        check_schema(header["schema"], SCHEMA, str(path), error=DatasetError)
        return _model(header, arrays)
    except DatasetError:
        raise
    except (LatcastError, KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        raise DatasetError(f"{path}: found no model of devices: {problem!r}; get the file again") from problem


def _model(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> DeviceModel:
    if tuple(header["terms"]) != TERM_NAMES:
        raise ValueError("its terms are of another version")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("found a number that is not finite")
    basis = ProcessBasis.from_arrays(arrays)
    size = TERM_COUNT + basis.size
    covariates = tuple(str(name) for name in header["covariates"])
    effects, states = (np.asarray(arrays[name], dtype=np.float64) for name in ("effects", "states"))
    listed = header["platforms"]
    if effects.shape != (len(covariates), size) or states.shape != (len(listed), size):
        raise ValueError(f"found effects of {effects.shape} and states of {states.shape}, expected {size} columns")
    known: list[dict[str, float]] = [{} for _ in listed]
    rows, columns, values = (arrays[f"covariate.{name}"].tolist() for name in ("row", "column", "value"))
    for row, column, value in zip(rows, columns, values, strict=True):
        known[row][covariates[column]] = value
    start, network = arrays["row.start"].tolist(), arrays["row.network"].astype(np.int64)
    log_ms = arrays["row.log_ms"] / 1000
    if len(start) != len(listed) + 1 or not len(network) == len(log_ms) == start[-1]:
        raise ValueError(f"found {len(log_ms)} latencies of {len(network)} networks on {len(start) - 1} platforms")
    platforms = tuple(
        KnownPlatform(str(name), str(kind), str(silicon), found, network[first:last], log_ms[first:last], str(source))
        for (name, kind, silicon, source), found, first, last in zip(listed, known, start[:-1], start[1:], strict=True)
    )
    kinds = {}
    for name in KINDS:
        network_scale, kernel_scale, noise = map(float, header["kinds"][name])
        kinds[name] = Kind(_symmetric(arrays[f"{name}.covariance"], TERM_COUNT), network_scale, kernel_scale, noise)
    arbitration = {
        str(name): tuple(Arbitration(int(measured), _weighing(new), _weighing(known)) for measured, new, known in each)
        for name, each in header["arbitration"].items()
    }
    signature = tuple(Reference.from_json(each) for each in header["signature"])
    prefix = "known.offsets."
    offsets = {
        name.removeprefix(prefix): np.asarray(array, np.float64) for name, array in arrays.items() if name.startswith(prefix)
    }
    places, terms, process = (np.asarray(arrays[f"known.{name}"], dtype=np.float64) for name in ("places", "terms", "basis"))
    if len(terms) and (terms.shape, process.shape) != ((len(places), TERM_COUNT), (len(places), size - TERM_COUNT)):
        raise ValueError(f"found terms of {terms.shape} and a basis of {process.shape} for {len(places)} networks")
    if len(network) and not 0 <= network.min() <= network.max() < len(places):
        raise ValueError(f"found a latency of a network beyond the {len(places)} known ones")
    if any(found.shape != (len(places),) for found in offsets.values()):
        raise ValueError("found offsets of other networks than there are places")
    explained = {str(name): float(part) for name, part in header["explained"].items()}
    return DeviceModel(
        basis, covariates, effects, kinds, platforms, states, arbitration, signature, places, offsets, explained,
        terms, process,
    )  # fmt: skip


def _weighing(found: Sequence[Any]) -> Weighing:
    weights, *numbers = found
    return Weighing({str(name): float(part) for name, part in weights.items()}, *map(float, numbers))


def _symmetric(half: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros((size, size))
    found[np.tril_indices(size)] = half
    return np.asarray(found + np.tril(found, -1).T)
