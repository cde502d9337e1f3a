from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.spaces.nas.nas_bench_201 import numbered_cell
from papers.iiswc20.architectures import (
    CELLS,
    KNOWN_DEVICES,
    LEARNED,
    NEW_DEVICES,
    Architectures,
    architectures_table,
    cell_features,
    middle,
    most_telling,
    signature_cells,
    steadied,
)
from papers.iiswc20.experiments import compute
from papers.iiswc20.protocol import Trial, rows_of
from tests.papers.iiswc20.made_up_phones import made_up

CELL = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"


def test_a_cell_is_its_edges_its_operations_and_its_longest_paths() -> None:
    features = cell_features(CELL)

    # Six edges of five operations, six of four, five and four counts, two paths and the number of edges, six of compute.
    assert len(features) == 30 + 24 + 5 + 4 + 3 + 6
    # Input to 1 (3x3), 1 to 2 (1x1), 2 to output (pooling), and the skip beside: two convolutions on a path of three edges.
    assert features[63:66] == [2.0, 3.0, 4.0]
    assert features[54:59] == [2.0, 1.0, 1.0, 1.0, 1.0]


def test_a_cell_without_a_path_has_none() -> None:
    nothing = cell_features("|none~0|+|none~0|nor_conv_3x3~1|+|none~0|none~1|none~2|")

    assert nothing[63:66] == [-1.0, -1.0, 0.0]


def test_the_most_telling_network_is_the_one_that_goes_with_the_most_others() -> None:
    # Two networks that are one, a third that goes the other way half as far, and two that hardly move.
    common = np.array([2.0, 2.0, -1.0, 0.1, 0.1])
    chosen = most_telling(np.outer(common, common) + 0.01 * np.eye(5), 3)

    assert chosen[0] in (0, 1, 2)
    assert len(set(chosen)) == 3


def test_the_fastest_and_the_slowest_tenth_are_left_out() -> None:
    assert sorted(middle(np.arange(20.0)[::-1])) == list(range(2, 18))


def test_values_next_to_nothing_are_brought_up() -> None:
    latency_ms = np.concatenate([np.full(999, 8.0), [0.001]])[None]

    assert steadied(latency_ms).min() == pytest.approx(2.0)


def test_new_devices_rank_cells_that_no_device_ran() -> None:
    rng = np.random.default_rng(0)
    cells = tuple(numbered_cell(int(number)) for number in rng.permutation(15625)[:CELLS])
    features = np.array([cell_features(cell) for cell in cells])
    wide, narrow = features[:, 62], features[:, 61]
    prices = rng.uniform(0.2, 2, (len(KNOWN_DEVICES) + len(NEW_DEVICES), 2))
    latency_ms = 1 + prices[:, :1] * wide + 0.3 * prices[:, 1:] * narrow
    latency_ms *= np.exp(0.02 * rng.normal(size=latency_ms.shape))
    found = Architectures(cells, latency_ms[: len(KNOWN_DEVICES)], latency_ms[len(KNOWN_DEVICES) :])
    trial = Trial("new architectures", 0, "", 10)

    chosen = signature_cells(found, 10)
    rows = compute(trial, replace(made_up(), architectures=found))
    table = architectures_table(rows_of({trial: rows}), made_up())

    assert len(set(chosen)) == 10
    assert max(chosen) < LEARNED
    assert [row["device"] for row in rows] == list(NEW_DEVICES)
    assert min(row["spearman"] for row in rows) > 0.8
    assert table.name == "nas-bench-201"
    assert table.column("device")[-1] == "mean"
