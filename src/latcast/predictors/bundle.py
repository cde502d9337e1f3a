"""Predictor bundles: a platform predictor as a folder or a zip of JSON, text and safetensors.

======================== ==========================================================================================
``platform.json``        schema version, version of latcast that wrote it, platform, environment, analytical terms, network
                         model, interval, starts, and an index of the kernel predictors, with the kinds and the most work
                         that each was trained on
``fusion_rules.json``    the runtime's rules
``kernels/*.safetensors`` for each kernel predictor the range it was trained on and its regressor, as arrays
``device.safetensors``   of a platform known by few measurements: their posterior (:mod:`latcast.predictors.device_forecast`)
``golden.json``          inputs and outputs, checked at load (:mod:`latcast.predictors.golden`)
``card.json, CARD.md``   what it was trained on and how well it does, for programs and for people
======================== ==========================================================================================

Nothing is pickled: a bundle from a stranger is safe to open, and one from today needs no training library to load.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from latcast.errors import BundleError, LatcastError, UnknownNameError
from latcast.kernels.rules import FusionRules
from latcast.kernels.types import KERNEL_TYPES, KernelType, kernel_type
from latcast.predictors.analytical import LIMIT_OF_TERM, POOLED, TERMS, AnalyticalTerms
from latcast.predictors.bundle_files import DEVICE_FILE, BundleFiles, write_files
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.card import card_text, check_card
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import (
    ANALYTICAL_GP,
    COLDNESS,
    TRANSFERRED,
    KernelPredictor,
    KernelSource,
    Seen,
    TransferredBase,
    feature_names,
    kernel_models,
)
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.regressors import regressor_from_arrays
from latcast.reading import check_schema, parse_json, parse_tensors
from latcast.records import Platform
from latcast.version import VERSION

if TYPE_CHECKING:
    from latcast.predictors.device_forecast import DeviceForecast

BUNDLE_SCHEMA = 6
"""Raised with every change of what is written, so that a reader tells an old or a new bundle from a damaged one."""

_KEYS = frozenset(
    {"schema", "latcast", "platform", "environment", "physical", "network", "interval", "kernels", "device", "start"}
)  # fmt: skip
"""Fields of ``platform.json``; another one is of a later version and refused."""

MOST_CHANNELS_OF_A_BLOCK = 1024
"""Channels of a block from which on a bundle is taken to be damaged."""

_ENTRY_KEYS = frozenset({"file", "model", "regressor", "samples", "fields", "features", "seen", "transferred"})
"""Fields of a kernel predictor in the index."""

MOST_JSON_BYTES = 16_000_000

_REGRESSOR = "regressor."
"""Prefix of a regressor's arrays in a safetensors file, beside ``low`` and ``high``."""

_SOURCE = "source_{}."
"""Prefix of the arrays of a transferred kernel predictor's sources, by their place."""

MOST_SOURCES, DEEPEST_SOURCES = 8, 4
"""Sources of one kernel predictor, and of theirs in turn."""

_AFFINE, _CORRECTED, _COLD = "affine", "affine with warm caches", "affine with coldness by latency"
"""The kinds of calibration terms, as written: without and with a correction of short networks, or with coldness in its place;
another is of a later version."""

TRAIN_AGAIN = (
    "make it again from measurements (latcast train STORE --replace; latcast device add) or measure again (latcast profile)"
)

Part = TypeVar("Part")


def save_bundle(predictor: PlatformPredictor, path: str | os.PathLike[str], *, compressed: bool = False) -> Path:
    """Write a bundle: a zip where the path ends in ``.zip``, otherwise a folder.

    The same predictor gives the same bytes, unless a zip is compressed by another version of zlib. An old bundle at this path is
    replaced at once or not at all.

    Args:
        predictor: What to write; its card should say what :data:`latcast.predictors.card.FIELDS` asks for.
        path: Where to.
        compressed: Whether a zip is compressed, for those that travel with the package.

    Raises:
        BundleError: The card holds something that JSON cannot, a number of the predictor is not finite, or something
            other than a bundle is in the way.

    Example:
        >>> import latcast
        >>> path = latcast.save_bundle(latcast.load("pixel4/tflite-2.10/gpu/fp16"), "mine.zip")
        >>> latcast.load(path).platform.device
        'pixel4'
    """
    from latcast.predictors.golden import golden_values

    path = Path(path)
    predictor = predictor.with_card({key: _plain(value, f"{path}: the card's '{key}'") for key, value in predictor.card.items()})
    network = predictor.network
    kind = _COLD if network.coldness is not None else _CORRECTED if network.short_networks.exponents else _AFFINE
    files = {f"kernels/{name}.safetensors": _tensors(_named_arrays(found)) for name, found in predictor.kernels.items()}
    platform = {
        "schema": BUNDLE_SCHEMA,
        "latcast": VERSION,
        "platform": predictor.platform.id,
        "environment": predictor.card.get("environment") or {},
        "physical": {
            "terms": list(predictor.analytical.terms),
            **_block(predictor.analytical),
            "coefficients_ms": predictor.analytical.to_json(),
        },
        "network": {"kind": kind, **network.to_json()},
        "interval": predictor.interval.to_json(),
        "kernels": {name: _index_entry(found) for name, found in predictor.kernels.items()},
    }
    if predictor.device is not None:
        platform["device"] = {"members": list(predictor.device.member_names)}
        files[DEVICE_FILE] = _tensors(predictor.device.arrays())
    if predictor.start is not None:
        platform["start"] = predictor.start.to_json()
    documents = {
        "platform.json": platform,
        "fusion_rules.json": predictor.rules.to_json(),
        "golden.json": {"schema": BUNDLE_SCHEMA, **golden_values(predictor)},
        "card.json": {"schema": BUNDLE_SCHEMA, **{key: each for key, each in predictor.card.items() if key != "environment"}},
    }
    try:
        texts = {name: json.dumps(document, indent=1, sort_keys=True, allow_nan=False) for name, document in documents.items()}
        files |= {name: f"{text}\n".encode() for name, text in texts.items()}
    except (TypeError, ValueError) as problem:
        raise BundleError(f"{path}: the predictor cannot be written: {problem}; train it again") from problem
    files["CARD.md"] = card_text(predictor).encode()
    write_files(path, files, compressed=compressed)
    return path


def load_bundle(path: Path | str, *, check: bool = True) -> PlatformPredictor:
    """Read a bundle and check its golden values.

    Args:
        path: A folder or a zip.
        check: Whether golden values are checked, which takes as long as all else; those of shipped bundles are by the tests.

    Raises:
        BundleError: The bundle is missing, damaged, unsafe or of a newer schema, or it predicts other than it did when it
            was written. The message is one line: file, what was found, what was expected, what to do.
    """
    with BundleFiles(Path(path)) as files:
        reader = _Reader(files)
        predictor = reader.predictor()
        if not check:
            return predictor
        from latcast.predictors.golden import golden_mismatch

        golden = _document(files, "golden.json")
        try:
            mismatch = golden_mismatch(predictor, golden)
        except (LatcastError, KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as problem:
            raise reader.refused("golden.json", f"cannot be checked: {problem!r}") from problem
        if mismatch:
            raise BundleError(
                f"{files.path}: golden.json: {mismatch}; {reader.writer} wrote the bundle and this one would not predict "
                f"what was trained: {TRAIN_AGAIN}, or get it again"
            )
    return predictor


def read_summary(path: Path | str) -> tuple[Platform, Mapping[str, Any]]:
    """Return the platform and the card, ``environment`` with it, without reading predictors or checking golden values.

    Raises:
        BundleError: As :func:`load_bundle`, as far as it looks.
    """
    with BundleFiles(Path(path)) as files:
        return _Reader(files).summary()


def _plain(value: Any, where: str) -> Any:
    """Return a value as JSON has it: no tuples, no numpy, and null for NaN and infinity."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(each, where) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        listed = sorted(value) if isinstance(value, (set, frozenset)) else list(value)
        return [_plain(each, where) for each in listed]
    raise BundleError(f"{where} holds a {type(value).__name__}, expected text, numbers, lists or mappings; leave it out")


def _index_entry(found: KernelPredictor) -> dict[str, Any]:
    kind = kernel_type(found.kernel_type)
    entry: dict[str, Any] = {
        "file": f"kernels/{found.kernel_type}.safetensors",
        "model": found.model,
        "regressor": None if found.regressor is None else found.regressor.kind,
        "samples": found.samples,
        "fields": list(kind.fields),
        "features": list(found.features or feature_names(kind)),
        "seen": {
            "kinds": {name: list(codes) for name, codes in sorted(found.seen.kinds.items())},
            "most_flops": found.seen.most_flops, "most_elements": found.seen.most_elements,
        },
    }  # fmt: skip
    if found.base is not None:
        entry["transferred"] = {
            "coefficients_ms": {name: values.tolist() for name, values in sorted(found.base.coefficients.items())},
            "sources": [
                {
                    "platform": source.platform,
                    **({} if source.analytical.terms == TERMS else {"terms": list(source.analytical.terms)}),
                    **_block(source.analytical),
                    "coefficients_ms": source.analytical.to_json(),
                    "kernel": _index_entry(source.predictor),
                }
                for source in found.base.sources
            ],
        }
    return entry


def _block(analytical: AnalyticalTerms) -> dict[str, int]:
    return {"block": analytical.block} if analytical.block else {}


def _tensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}))


def _named_arrays(found: KernelPredictor) -> dict[str, np.ndarray]:
    arrays = {"low": found.low.astype(np.int64), "high": found.high.astype(np.int64)}
    if found.regressor is not None:
        arrays |= {f"{_REGRESSOR}{name}": array for name, array in found.regressor.arrays().items()}
    for place, source in enumerate(found.base.sources if found.base is not None else ()):
        arrays |= {f"{_SOURCE.format(place)}{name}": array for name, array in _named_arrays(source.predictor).items()}
    return arrays


def _document(files: BundleFiles, name: str) -> dict[str, Any]:
    """Read a JSON file: an object of a schema that this version reads."""
    data = files.read(name)
    if len(data) > MOST_JSON_BYTES:
        raise files.damaged(name, f"found {len(data) / 1e6:.0f} MB, expected at most {MOST_JSON_BYTES / 1e6:.0f} MB")
    try:
        document = parse_json(data, "content", error=BundleError)
    except BundleError as problem:
        raise files.damaged(name, f"found no JSON: {problem}") from problem
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, int):
        raise files.damaged(name, "found no schema version, expected a JSON object with 'schema'")
    check_schema(schema, BUNDLE_SCHEMA, f"{files.path}: {name}", error=BundleError)
    return document


def _refuse_unknown(data: Mapping[str, Any], known: Collection[str]) -> None:
    if unknown := sorted(set(data) - set(known)):
        raise ValueError(f"found '{unknown[0]}', expected some of {', '.join(sorted(known))}")


def _coefficients(table: Mapping[str, Any], width: int) -> dict[str, np.ndarray]:
    """Read the coefficients by class, one class among them for kernels without a class."""
    if POOLED not in table:
        raise ValueError(f"found no coefficients of the class '{POOLED}'")
    found = {}
    for name, values in table.items():
        if len(values) != width:
            raise ValueError(f"found {len(values)} coefficients of '{name}', expected {width}")
        found[str(name)] = np.array([_number(value, above=0) for value in values])
    return found


def _analytical(data: Mapping[str, Any]) -> AnalyticalTerms:
    """Read analytical terms; those of ``TERMS`` where the bundle names none."""
    terms = tuple(data.get("terms", TERMS))
    further = [name for name in LIMIT_OF_TERM if name not in TERMS]
    if terms[: len(TERMS)] != TERMS or not set(terms[len(TERMS) :]) <= set(further) or len(set(terms)) != len(terms):
        raise ValueError(
            f"found the analytical terms {list(terms)}, expected {list(TERMS)} with a class '{POOLED}', and some of "
            f"{further} behind them"
        )
    block = data.get("block", 0)
    if not isinstance(block, int) or not 0 <= block <= MOST_CHANNELS_OF_A_BLOCK:
        raise ValueError(f"found blocks of {block} channels, expected a whole number up to {MOST_CHANNELS_OF_A_BLOCK}")
    return AnalyticalTerms(_coefficients(data["coefficients_ms"], len(terms)), terms, block)


def _number(value: Any, *, above: float = -math.inf) -> float:
    number = float(value)
    if isinstance(value, (bool, str)) or not math.isfinite(number) or number < above:
        raise ValueError(f"found {value!r}, expected a finite number of at least {above}")
    return number


class _Reader:
    """Turns the files of one bundle into its parts, and whatever fails into a BundleError that names the file."""

    def __init__(self, files: BundleFiles) -> None:
        self.files = files
        self.document = _document(files, "platform.json")
        self.part("platform.json", lambda: _refuse_unknown(self.document, _KEYS))

    @property
    def writer(self) -> str:
        """Return the latcast that wrote the bundle; none is named before schema 2."""
        return f"latcast {self.document['latcast']}" if "latcast" in self.document else "a latcast before 0.2"

    def refused(self, name: str, reason: str) -> BundleError:
        """Return the error of a file that cannot be used, which may be one of an older schema."""
        schema = self.document["schema"]
        if schema == BUNDLE_SCHEMA:
            return self.files.damaged(name, reason)
        return BundleError(
            f"{self.files.path}: {name}: {' '.join(reason.split())}; {self.writer} wrote the bundle (schema {schema}, this one "
            f"writes {BUNDLE_SCHEMA}): {TRAIN_AGAIN}, or get it again"
        )

    def part(self, name: str, build: Callable[[], Part]) -> Part:
        try:
            return build()
        except BundleError as problem:
            text = str(problem)
            raise problem if text.startswith(str(self.files.path)) else self.refused(name, text) from problem
        except (LatcastError, KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as problem:
            reason = f"found no {problem}" if isinstance(problem, KeyError) else str(problem)
            raise self.refused(name, reason) from problem

    def summary(self) -> tuple[Platform, Mapping[str, Any]]:
        card = _document(self.files, "card.json")
        card.pop("schema")
        self.part("card.json", lambda: check_card(card))
        if environment := self.part("platform.json", lambda: dict(self.document["environment"])):
            card["environment"] = environment
        return self.part("platform.json", lambda: Platform.parse(str(self.document["platform"]))), card

    def predictor(self) -> PlatformPredictor:
        platform, card = self.summary()
        self.files.read("CARD.md")
        rules = FusionRules.from_json(_document(self.files, "fusion_rules.json"), f"{self.files.path}: fusion_rules.json")
        index = self.part("platform.json", lambda: dict(self.document["kernels"]))
        kernels = {name: self.kernel(name, entry) for name, entry in sorted(index.items())}
        known = {f"kernels/{name}.safetensors" for name in index}
        strays = sorted(name for name in self.files.names - known if name.startswith("kernels/"))
        if strays:
            raise BundleError(
                f"{self.files.path}: {strays[0]}: found a file that platform.json does not name, expected none; "
                "remove it, or get the bundle again"
            )
        start = None
        if "start" in self.document:
            from latcast.predictors.starts import StartModel

            start = self.part("platform.json", lambda: StartModel.from_json(self.document["start"]))
        return PlatformPredictor(
            platform=platform,
            rules=rules,
            analytical=self.part("platform.json", lambda: _analytical(self.document["physical"])),
            kernels=kernels,
            network=self.part("platform.json", self.network),
            interval=self.part("platform.json", self.interval),
            card=card,
            device=self.device(),
            start=start,
        )

    def device(self) -> DeviceForecast | None:
        """Return the posterior of the device; None where predictors of kernels decide."""
        entry = self.document.get("device")
        if entry is None:
            return None
        from latcast.predictors.device_forecast import DeviceForecast

        arrays = self.arrays(DEVICE_FILE)
        return self.part(DEVICE_FILE, lambda: DeviceForecast.from_arrays(tuple(str(name) for name in entry["members"]), arrays))

    def network(self) -> CalibrationTerms:
        kind = self.document["network"]["kind"]
        if kind not in (_AFFINE, _CORRECTED, _COLD):
            raise BundleError(
                f"found a network model of kind '{kind}', expected '{_AFFINE}', '{_CORRECTED}' or '{_COLD}'; "
                f"update latcast to read it, or {TRAIN_AGAIN}"
            )
        for part, needed in (("caches", _CORRECTED), ("coldness", _COLD)):
            if (part in self.document["network"]) != (kind == needed):
                raise ValueError(f"found a network model of kind '{kind}' {'without' if kind == needed else 'with'} '{part}'")
        model = CalibrationTerms.from_json(self.document["network"])
        for value in (model.constant_ms, model.per_kernel_ms, *model.weights.values()):
            _number(value, above=0)
        return model

    def interval(self) -> Interval:
        interval = Interval.from_json(self.document["interval"])
        for value in (interval.low, interval.networks, interval.outside_growth, interval.high - interval.low):
            _number(value, above=0)
        if interval.low == 0:
            raise ValueError("found an interval that begins at 0, expected a positive factor")
        return interval

    def kernel(self, name: str, entry: Any) -> KernelPredictor:
        self.part("platform.json", lambda: self.check_entry(name, entry))
        file = f"kernels/{name}.safetensors"
        return self.part(file, lambda: self.kernel_from(name, entry, self.arrays(file)))

    def check_entry(self, name: str, entry: Any) -> None:
        try:
            kind = kernel_type(name)
        except UnknownNameError as problem:
            raise BundleError(
                f"{self.files.path}: platform.json: found the kernel type '{name}', expected one of "
                f"{', '.join(sorted(KERNEL_TYPES))}, or a variant of one; update latcast to read it"
            ) from problem
        _refuse_unknown(entry, _ENTRY_KEYS)
        for key, known in (("fields", kind.fields), ("features", (*feature_names(kind), COLDNESS))):
            unknown = [each for each in entry[key] if each not in known]
            if unknown:
                raise BundleError(
                    f"{self.files.path}: platform.json: found {key} of '{name}' unknown here: {unknown[0]!r}, "
                    f"expected some of its {len(known)}; update latcast to read it"
                )
            if len(set(entry[key])) != len(entry[key]):
                raise ValueError(f"found {key} of '{name}' twice, expected each once")
        if len(entry["fields"]) < len(kind.fields):
            raise BundleError(
                f"{self.files.path}: platform.json: found '{name}' of {len(entry['fields'])} fields, expected "
                f"{len(kind.fields)}: the bundle is older than the others; {TRAIN_AGAIN}"
            )
        if entry["model"] not in (*kernel_models(), ANALYTICAL_GP, TRANSFERRED) or entry["file"] != f"kernels/{name}.safetensors":
            raise ValueError(f"found the model '{entry['model']}' of '{name}' in '{entry['file']}', expected a known one")

    def arrays(self, file: str) -> dict[str, np.ndarray]:
        data = self.files.read(file)
        return self.part(file, lambda: parse_tensors(data, error=BundleError)[0])

    def kernel_from(
        self, name: str, entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], depth: int = 0
    ) -> KernelPredictor:
        low, high = arrays["low"], arrays["high"]
        kind = kernel_type(name)
        expected = (len(kind.fields),)
        if low.shape != expected or high.shape != expected or low.dtype != np.int64 or high.dtype != np.int64:
            raise ValueError(f"found a range of shape {low.shape}, expected whole numbers of shape {expected}")
        own = {key.removeprefix(_REGRESSOR): array for key, array in arrays.items() if key.startswith(_REGRESSOR)}
        for key, array in own.items():
            if array.dtype not in (np.float32, np.float64, np.int32, np.int64):
                raise ValueError(f"found the array '{key}' of {array.dtype}, expected floats or integers")
        regressor = None if entry["regressor"] is None else regressor_from_arrays(str(entry["regressor"]), own)
        return KernelPredictor(
            name, entry["model"], regressor, low, high, int(entry["samples"]), self.seen(kind, entry["seen"]),
            tuple(entry["features"]), self.base(name, entry.get("transferred"), arrays, depth),
        )  # fmt: skip

    def seen(self, kind: KernelType, entry: Mapping[str, Any]) -> Seen:
        kinds = dict(entry["kinds"])
        if set(kinds) != set(kind.kinds):
            raise ValueError(f"found the kinds {sorted(kinds)} of '{kind.name}', expected {sorted(kind.kinds)}")
        codes = {name: tuple(int(_number(code, above=0)) for code in listed) for name, listed in kinds.items()}
        return Seen(codes, _number(entry["most_flops"], above=0), _number(entry["most_elements"], above=0))

    def base(
        self, name: str, entry: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray], depth: int
    ) -> TransferredBase | None:
        if entry is None:
            return None
        listed = list(entry["sources"])
        if not 1 <= len(listed) <= MOST_SOURCES or depth >= DEEPEST_SOURCES:
            raise ValueError(
                f"found {len(listed)} sources at depth {depth}, expected 1 to {MOST_SOURCES}, {DEEPEST_SOURCES} deep"
            )
        sources = []
        for place, each in enumerate(listed):
            prefix = _SOURCE.format(place)
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            self.check_entry(name, each["kernel"])
            analytical = _analytical(each)
            kernel = self.kernel_from(name, each["kernel"], own, depth + 1)
            sources.append(KernelSource(Platform.parse(str(each["platform"])).id, analytical, kernel))
        return TransferredBase(tuple(sources), _coefficients(entry["coefficients_ms"], len(TERMS) + len(sources)))
