"""Judging of the shipped pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.pool import WITHOUT_DRAWN, missed, of_all_seeds, read_pool, rows_of
from latcast.records import Measurement
from latcast.spaces.catalogue import model
from shipping.arbitration import NEW_LINEAGES, NOTHING
from shipping.known_forecasts import PlatformErrors
from tests.devices.other_answers import small_pool

BUNDLED = "pixel4/tflite-2.10/1large/fp32"


def judged(percent: list[float], deviation: float, simple: float) -> PlatformErrors:
    """Networks of 1 ms that are predicted so many percent above it."""
    error = -np.log1p(np.array(percent) / 100)
    networks = np.arange(len(percent))
    return PlatformErrors(
        error, np.full(len(error), deviation), 0 * error, networks, np.full(len(error), -np.log1p(simple / 100))
    )


def test_platforms_weigh_the_same_in_errors_and_networks_in_coverage() -> None:
    first, second, other = (small_pool().platforms[row].name for row in (0, 1, 2))
    pool = replace(small_pool(), platforms=(*small_pool().platforms[:2], replace(small_pool().platforms[2], kind="gpu")))
    found = {
        (first, NOTHING): judged([4.0, 8.0, 12.0], 0.06, 50.0),  # 0.039, 0.077 and 0.113; 0.0987 is inside
        (second, NOTHING): judged([20.0], 0.1, 100.0),  # 0.182; 0.1645 is inside
        (other, NEW_LINEAGES): judged([3.0], 0.1, 10.0),
    }

    rows = {(row["kind"], row["held_out"], row["networks"]): row for row in rows_of(pool, found)}

    row = rows["cpu", NOTHING, "all"]
    assert (row["platforms"], row["predictions"]) == (2, 4)
    assert (row["mape"], row["median_mape"]) == (pytest.approx((8 + 20) / 2), pytest.approx(14))
    assert (row["within_5"], row["within_10"]) == (pytest.approx(100 / 6), pytest.approx(100 / 3))
    assert row["coverage"] == 50.0
    assert row["width"] == pytest.approx(np.exp(2 * 1.645 * 0.06))
    assert row["flops_and_memory_mape"] == pytest.approx(75)
    # None of the twenty networks multiplies matrices.
    assert rows["cpu", NOTHING, "CNNs"] == {**row, "networks": "CNNs"}
    assert set(rows) == {
        (WITHOUT_DRAWN, NOTHING, "all"),
        *((kind, case, name) for kind, case in (("cpu", NOTHING), ("gpu", NEW_LINEAGES)) for name in ("all", "CNNs")),
    }


def test_predictions_of_every_seed_count_alike() -> None:
    first, second = (small_pool().platforms[row].name for row in (0, 1))
    both = of_all_seeds(
        [
            {(first, NOTHING): judged([4.0, 8.0], 0.06, 50.0), (second, NOTHING): judged([20.0], 0.1, 100.0)},
            {(first, NOTHING): judged([18.0], 0.06, 50.0)},
        ]
    )

    [row] = [each for each in rows_of(small_pool(), both) if (each["kind"], each["networks"]) == ("cpu", "all")]

    assert (row["platforms"], row["predictions"]) == (2, 4)
    assert row["mape"] == pytest.approx((10 + 20) / 2)


def measurements(platform: str, names: list[str], second_ms: float = 1.0) -> list[tuple[str, Measurement]]:
    """Each network ten times: five of 1 ms, then five of ``second_ms`` for every other network."""
    dataset = {"name": "set", "licence": "MIT", "source": "someone/measurements"}
    return [
        (
            "set",
            Measurement(
                platform, model(name), runs_ms=(1.0,) * 5 + (second_ms if place % 2 else 1.0,) * 5, latency_ms=1.0,
                environment={"dataset": dataset},
            ),
        )
        for place, name in enumerate(names)
    ]  # fmt: skip


def test_unstable_platforms_teach_nothing_and_those_with_a_bundle_are_not_shipped_again() -> None:
    four = ["alexnet", "squeezenet1_0", "squeezenet1_1", "resnet18"]
    listed = [
        *measurements("steady/tflite-2.14/cpu1/fp32", four),
        # Two of four networks take 20 % more the second time: the median of the differences from the middle is 9 %.
        *measurements("shaky/tflite-2.14/cpu1/fp32", four, second_ms=1.2),
        *measurements("few/tflite-2.14/cpu1/fp32", four[:3]),
        *measurements(BUNDLED, four, second_ms=1.2),
    ]

    pool, about, wanted, reasons = read_pool(listed, lambda *_: None)

    assert wanted == {"steady/tflite-2.14/cpu1/fp32"}
    assert {each.name for each in pool.platforms} == {"steady/tflite-2.14/cpu1/fp32", "few/tflite-2.14/cpu1/fp32", BUNDLED}
    assert reasons == {"fewer than four networks with a graph": 1, "unstable": 1, "a bundle of its own": 1}
    assert about["shaky/tflite-2.14/cpu1/fp32"].unstable


def test_coverage_is_to_lie_between_85_and_95_percent_and_the_pool_to_be_large_and_its_file_small() -> None:
    rows = [{"kind": "cpu", "held_out": NOTHING, "networks": "all", "coverage": value} for value in (84.9, 85.0, 95.0, 95.1)]
    rows += [{**rows[0], "networks": "CNNs"}]
    many = {f"d{number % 140}/r-{number}/cpu1/fp32" for number in range(500)}

    assert len(missed(rows, many, 25_000_000)) == 2
    assert len(missed([], many, 25_000_001)) == 1
    assert len(missed([], sorted(many)[:499], None)) == 1
    assert len(missed([], {f"d{number % 139}/r-{number}/cpu1/fp32" for number in range(500)}, None)) == 1
