"""The published datasets as they are read where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.importers import IMPORTERS


@pytest.mark.parametrize(
    ("name", "measurements", "platforms", "networks"),
    [
        ("iiswc20", 10_620, 90, 118), ("ncnn_boards", 5_349, 315, 36), ("tflite_blocks", 74_144, 3, 33_226),
        ("fbnet", 135_000, 27, 5_000), ("renesas_drpai", 1_281, 6, 244), ("opencv_zoo", 414, 20, 42), ("mmdeploy", 98, 11, 18),
        ("mlperf_mobile", 30, 5, 11),
    ],
)  # fmt: skip
def test_every_value_becomes_a_measurement(
    published_data: Path, name: str, measurements: int, platforms: int, networks: int
) -> None:
    found = IMPORTERS.get(name).read(published_data / name)

    assert len(found.measurements) == measurements
    assert len({measurement.platform for measurement in found.measurements}) == platforms
    assert len({measurement.reference.key for measurement in found.measurements}) == networks
    assert all(measurement.latency_ms is not None and measurement.latency_ms > 0 for measurement in found.measurements)


def test_without_the_raw_runs_of_iiswc20_a_latency_is_their_published_mean(published_data: Path, tmp_path: Path) -> None:
    lines = (published_data / "iiswc20" / "latency_ms.csv").read_text().splitlines()[:3]
    (tmp_path / "latency_ms.csv").write_text("\n".join(lines))

    found = IMPORTERS.get("iiswc20").read(tmp_path)

    assert [item.latency_ms for item in found.measurements[:3]] == [float(cell) for cell in lines[1].split(",")[1:4]]
    assert {item.statistic.partition(" ")[0] for item in found.measurements} == {"mean"}
    assert len(found.absent) == 4
