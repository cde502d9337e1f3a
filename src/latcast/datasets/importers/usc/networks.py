"""The files of whole networks: one row a network, a mean and a standard deviation for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import NO_VALUE, Malformed, Row, Table, number
from latcast.datasets.importers.usc.scenarios import PHONES, RUNTIMES, TRANSFORMER_RUNTIMES, Scenario, read_scenarios
from latcast.measure.environment import MOMENT
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.pytorchcv import reference_of

SOURCE: Mapping[str, str] = {
    "name": "usc",
    "source": "qed-usc/mobile-ml-benchmark, commit 40ba833",
    "licence": "MIT",
    "paper": "Li et al., Inference latency prediction for CNNs on heterogeneous mobile devices and ML frameworks, PEVA 2024",
}

STATISTIC = "mean of the published runs (variation: standard deviation over mean)"

_COLUMNS = ("model", "flops", "size")


def _synthetic(name: str) -> Reference:
    return Reference("usc_nas", {"name": name}, name)


def _hub_model(name: str) -> Reference:
    return Reference("huggingface", {"name": name}, name)


def _synthetic_transformer(name: str) -> Reference:
    return Reference("usc_nas", {"name": name, "kind": "vit"}, name)


REFERENCES: Mapping[str, Callable[[str], Reference]] = {
    "cnn": reference_of, "transformer": _hub_model, "nas": _synthetic, "transformer_nas": _synthetic_transformer,
}  # fmt: skip
"""Kind of networks to how they are referred to: built by pytorchcv; named only."""

RUNTIMES_OF: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "cnn": RUNTIMES, "nas": RUNTIMES, "transformer": TRANSFORMER_RUNTIMES, "transformer_nas": TRANSFORMER_RUNTIMES,
}  # fmt: skip
"""Kind of networks to what they ran on."""


@dataclass(frozen=True)
class Networks:
    """What a file of networks gave.

    Attributes:
        measurements: One for each network and scenario with a value.
        rows, missing: Rows below the header, and scenarios without a value.
    """

    measurements: Sequence[Measurement]
    rows: int
    missing: int


def read_networks(file: Path, framework: str, kind: str, refusals: Refusals, source: str = SOURCE["source"]) -> Networks:
    """Reads a file of whole networks.

    Args:
        file: The file.
        framework: "tflite" or "torch".
        kind: A key of :data:`REFERENCES`.
        refusals: Where malformed rows go.
        source: Repository and commit, for the records.

    Raises:
        DatasetError: The file or its header is not as expected, or a row is malformed and that is not put up with.
    """
    table = Table(file, _COLUMNS, refusals)
    try:
        scenarios = read_scenarios(table.header, framework, len(_COLUMNS), RUNTIMES_OF[kind])
    except Malformed as problem:
        raise table.bad_header(problem) from problem
    environments = {scenario.platform: _environment(scenario.platform, source) for scenario in scenarios}
    lines: dict[str, int] = {}
    found: list[Measurement] = []
    missing = 0
    for row in table.rows():
        name = row.cells[0]
        try:
            if not name or name in lines:
                reason = f"the network '{name}' stands in line {lines[name]} already" if name else "the network has no name"
                raise Malformed(reason)
            measurements = _measurements(row, scenarios, REFERENCES[kind](name), f"{file.name}:{row.line}", environments)
        except Malformed as problem:
            table.refuse(row, problem)
            continue
        lines[name] = row.line
        missing += len(scenarios) - len(measurements)
        found += measurements
    return Networks(found, len(table), missing)


def _environment(platform: str, source: str) -> dict[str, Any]:
    device = Platform.parse(platform).device
    return {"dataset": {**SOURCE, "source": source}, "device": {"soc": PHONES[device].soc, "gpu": PHONES[device].gpu}}


def _measurements(
    row: Row, scenarios: Sequence[Scenario], reference: Reference, place: str, environments: Mapping[str, dict[str, Any]]
) -> list[Measurement]:
    """The row's measurements; scenarios without a value give none.

    Raises:
        Malformed: A number is none, or a standard deviation stands without its mean.
    """
    flops, size_bytes = (number(row.cells[index], _COLUMNS[index]) for index in (1, 2))
    moment = {"row": place, "flops": flops, "size_bytes": size_bytes}
    found = []
    for scenario in scenarios:
        mean, deviation = row.cells[scenario.mean], row.cells[scenario.deviation]
        if mean in NO_VALUE:
            if deviation not in NO_VALUE:
                raise Malformed(f"{scenario.platform} has a standard deviation without a mean")
            continue
        mean_us = number(mean, f"the mean on {scenario.platform}")
        variation = None
        if deviation not in NO_VALUE:
            variation = number(deviation, f"the standard deviation on {scenario.platform}", least=0) / mean_us
        found.append(
            Measurement(
                scenario.platform,
                reference,
                latency_ms=mean_us / 1000,
                raw_latency_ms=mean_us / 1000,
                variation=variation,
                statistic=STATISTIC,
                environment={**environments[scenario.platform], MOMENT: moment},
            )
        )
    return found
