"""One network, measured now, without a store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from latcast.errors import ModelError, UnknownNameError
from latcast.measure.client import Item, MeasuringClient
from latcast.measure.plan import NETWORK_PLAN, MeasurePlan
from latcast.measure.quiet import QuietTimes, QuietTimesFile
from latcast.measure.remote import open_measurer
from latcast.measure.settings import WorkerSettings
from latcast.measure.statistics import renormalised
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.catalogue import is_model_name, resized
from latcast.spaces.catalogue import model as published_model


def file_reference(path: Path | str, *, name: str = "") -> Reference:
    """The reference of a model file: its absolute path and the hash of its content.

    Raises:
        ModelError: There is no such file.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        raise ModelError(f"'{file}' is no regular file; expected a model file")
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as problem:
        raise ModelError(f"cannot read the model file {file}: {problem.strerror}") from problem
    return Reference("file", {"path": str(file.resolve()), "sha256": digest}, name or file.stem)


def model_reference(model: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Reference:
    """The reference of what a user calls a model: the path of a file, or the name of a published network.

    Args:
        model: Path or name.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.

    Raises:
        ModelError: There is no such file and no such network; or the network takes no inputs of these shapes.
    """
    if not is_model_name(model):
        reference = file_reference(model)
        given = {name: list(shape) for name, shape in (shapes or {}).items()}
        return replace(reference, parameters={**reference.parameters, "shapes": given}) if given else reference
    try:
        return resized(published_model(model), shapes or {})
    except UnknownNameError as problem:
        raise ModelError(f"there is no file '{model}', and {problem}") from problem


def platform_of(settings: WorkerSettings) -> Platform:
    """The platform that a worker with these settings says it is, with the version of the library that it found.

    Raises:
        RuntimeFailure: The runtime cannot be started.
    """
    with open_measurer(settings, QuietTimesFile()) as client:
        return client.platform


def measure_graph(
    model: Reference | Path | str,
    settings: WorkerSettings | None = None,
    plan: MeasurePlan = NETWORK_PLAN,
    *,
    role: str = "network",
    quiet_times: QuietTimes | None = None,
) -> Measurement:
    """Measures one network or kernel in a process of its own.

    Args:
        model: A reference, or the path of a model file.
        settings: Runtime, threads, precision; ONNX Runtime with one thread by default.
        plan: Rounds and runs.
        role: "network" or "kernel".
        quiet_times: Where the probe's quiet times are kept; a file in the user's cache by default.

    Returns:
        The record; ``error`` says why where the network could not be loaded or run.

    Raises:
        ModelError: There is no such file.
        RuntimeFailure: The runtime cannot be started.
    """
    reference = model if isinstance(model, Reference) else file_reference(model)
    kept = quiet_times if quiet_times is not None else QuietTimesFile()
    with MeasuringClient(settings or WorkerSettings(), kept) as client:
        ((_, measurement),) = client.measure([Item(reference, role)], plan)
        if not measurement.ok:
            return measurement
        # The host may have been in a slow state when the measurement began.
        client.calibrate()
        return renormalised(measurement, client.quiet_ms)
