"""Choosing the networks that a new device shall run, from what is known of others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latcast.devices.latency_table import LatencyTable
from latcast.devices.shared_terms import SharedTerms
from latcast.devices.signatures import SELECTIONS
from latcast.errors import TrainingError
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build

METHOD = "prediction_error"

SIZE = 10

MOST_CANDIDATES = 600
"""Of a search space with thousands of networks, so many are drawn to choose from: selections compare them by pairs."""


MOST_PARAMETERS = 6_500_000
"""Of a network that is carried to another device; 26 MB in single precision."""


@dataclass(frozen=True)
class Choice:
    """A signature.

    Attributes:
        networks: In the order in which they were chosen.
        typical_ms: Median latency of each over the platforms that ran it.
        table: What they were chosen from, complete.
    """

    networks: tuple[Reference, ...]
    typical_ms: tuple[float, ...]
    table: LatencyTable


def choose_signature(
    table: LatencyTable, size: int = SIZE, *, method: str = METHOD, seed: int = 0, buildable: bool = False
) -> Choice:
    """Chooses networks from a table, which may lack cells: what lacks most is left out.

    Args:
        table: Known latencies.
        size: How many networks.
        method: A name in :data:`latcast.devices.signatures.SELECTIONS`.
        seed: For what is random.
        buildable: Only networks that can be built here, so that they can be written as files and run elsewhere.

    Raises:
        TrainingError: Too few networks are left.
        UnknownNameError: There is no such method.
    """
    select = SELECTIONS.get(method)
    columns = np.array([index for index, network in enumerate(table.networks) if can_build(network) or not buildable], dtype=int)
    if not len(columns):
        raise TrainingError(
            f"none of the {len(table.networks)} known networks can be built here, so none can be run on another device"
        )
    if len(columns) > MOST_CANDIDATES:
        missing = np.isnan(table.latency_ms[:, columns]).sum(axis=0)
        order = np.random.default_rng(seed).permutation(len(columns))
        columns = np.sort(columns[order[np.argsort(missing[order], kind="stable")][:MOST_CANDIDATES]])
    part = table.columns(columns).complete_part()
    if len(part.networks) < size:
        raise TrainingError(
            f"{len(part.networks)} networks were measured on every one of {len(part.platforms)} platforms, too few for a "
            f"signature of {size}; ask for fewer, or give more latencies"
        )
    chosen = select(part.latency_ms, size, seed)
    typical_ms = tuple(float(np.median(part.latency_ms[:, index])) for index in chosen)
    return Choice(tuple(part.networks[index] for index in chosen), typical_ms, part)


def small_signature(model: SharedTerms, size: int = SIZE) -> Choice:
    """Chooses among the networks of a fitted model those that are small to carry (:data:`MOST_PARAMETERS`).

    Args:
        model: Of known platforms.
        size: How many networks.

    Raises:
        TrainingError: There are not so many.
        LatcastError: A network of the model cannot be built.
    """
    graphs = ((index, build(network)) for index, network in enumerate(model.networks) if can_build(network))
    small = [index for index, graph in graphs if graph.parameter_count <= MOST_PARAMETERS]
    if len(small) < size:
        raise TrainingError(
            f"{len(small)} of the {len(model.networks)} known networks have at most {MOST_PARAMETERS / 1e6:g} million "
            f"parameters, too few for a signature of {size}; ask for fewer"
        )
    chosen = model.signature(size, among=small)
    typical_ms = tuple(float(np.exp(np.median(model.log_ms[:, index]))) for index in chosen)
    return Choice(tuple(model.networks[index] for index in chosen), typical_ms, model.table.columns(small))
