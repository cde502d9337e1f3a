"""``latcast doctor``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast import __version__ as version
from latcast.runtimes import RUNTIMES
from tests.cli.conftest import Latcast


@pytest.mark.usefixtures("bundle")
def test_the_json_tells_runtimes_parts_machine_and_bundles(latcast: Latcast, home: Path) -> None:
    found = latcast("doctor", "--json").json

    assert [each["runtime"] for each in found["runtimes"]] == RUNTIMES.names()
    [onnxruntime] = [each for each in found["runtimes"] if each["runtime"] == "onnxruntime"]
    assert onnxruntime["works"]
    assert onnxruntime["how_to_add"] is None
    assert all(each["works"] or each["how_to_add"] for each in found["runtimes"])
    assert all(each["version"] or each["how_to_add"].startswith("pip install") for each in found["parts"])
    assert found["machine"]["cpu"]
    assert found["machine"]["latcast"] == version
    assert found["bundles"] == {"folder": str(home / "bundles"), "platforms": 1, "damaged": []}


def test_people_get_the_same_in_tables(latcast: Latcast) -> None:
    found = latcast("doctor")

    assert (found.code, found.err) == (0, "")
    assert "Runtimes\n" in found.out
    assert "This machine\n" in found.out
    assert "None" not in found.out


def test_a_damaged_bundle_is_named(latcast: Latcast, home: Path) -> None:
    (home / "bundles").mkdir(parents=True)
    (home / "bundles" / "broken.zip").write_bytes(b"no zip")

    assert "broken.zip: found no readable zip" in latcast("doctor").err
    assert "broken.zip" in latcast("doctor", "--json").json["bundles"]["damaged"][0]
