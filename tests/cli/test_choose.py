"""``latcast choose`` as users and scripts call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast import predictors as shipped
from tests.cli.conftest import Latcast

PLATFORM = "pixel4/tflite-2.10/1large/fp32"
PHONE = Path(shipped.__file__).parent / "shipped" / "pixel4__tflite-2.10__1large__fp32.zip"


def test_the_json_has_the_keys_that_scripts_rely_on(latcast: Latcast) -> None:
    document = latcast("choose", "--on", PHONE, "--max-ms", "60", "--json").json

    assert document["schema"] == 1
    first = document["models"][0]
    assert {"name", "latency_ms", "low_ms", "high_ms", "fits", "accuracy", "macs", "parameters"} <= set(first)
    assert document["pick"] in [each["name"] for each in document["models"] if each["fits"]]
    accuracies = [each["accuracy"] for each in document["models"]]
    assert accuracies == sorted(accuracies, reverse=True)


def test_the_table_marks_what_fits_and_names_the_pick(latcast: Latcast) -> None:
    shown = latcast("choose", "--on", PHONE, "--max-ms", "60", "--params", "10M").out.splitlines()

    assert shown[0].startswith("the pick: ")
    assert shown[0].endswith("networks fit with 90 % certainty")
    assert shown[1] == f"{PLATFORM}, at most 60 ms"
    assert shown[2].split()[:2] == ["network", "top-1"]
    rows = shown[3:-1]
    assert rows[0].startswith(shown[0].removeprefix("the pick: ").partition(",")[0])
    assert len(rows) == 10
    assert all(" yes " in row for row in rows)


def test_the_pick_says_what_its_weights_were_trained_on(latcast: Latcast) -> None:
    shown = latcast("choose", "--on", PHONE, "--max-ms", "60", "--trained-on", "imagenet-1k").out.splitlines()

    assert " % top-1 (imagenet-1k), " in shown[0]
    assert latcast("choose", "--on", PHONE, "--trained-on", "jft").err.endswith(
        "'jft' is not one of: imagenet-1k, imagenet-21k, more\n"
    )


def test_where_nothing_fits_the_nearest_is_named(latcast: Latcast) -> None:
    shown = latcast("choose", "--on", PHONE, "--max-ms", "0.01").out.splitlines()

    assert shown[0].startswith("none fits; the nearest: ")
    assert shown[3].startswith(shown[0].removeprefix("none fits; the nearest: ").partition(",")[0])


def test_under_a_condition_networks_are_listed_by_the_latency_then(latcast: Latcast) -> None:
    gpu = "pixel4/tflite-2.10/gpu/fp16"
    command = ("choose", "resnet18", "--on", gpu, "--max-ms", "30")

    shown = latcast(*command, "--sustain", "30m").out.splitlines()
    [steady], [hot] = (latcast(*command, *asked, "--json").json["models"] for asked in ((), ("--sustain", "30m")))

    assert shown[1] == f"{gpu}, at most 30 ms, after 30 min"
    assert (steady["platforms"][0]["condition"], hot["platforms"][0]["condition"]) == ("", "after 30 min")
    assert hot["latency_ms"] > 1.5 * steady["latency_ms"]
    assert hot["probability"] < steady["probability"]


def test_own_candidates_take_their_accuracies_from_a_table(latcast: Latcast, model_file: Path, tmp_path: Path) -> None:
    table = tmp_path / "accuracies.csv"
    table.write_text(f"model,accuracy\n{model_file.name},66.5\nsqueezenet1_1,58.2\n")

    document = latcast("choose", "--on", PHONE, str(model_file), "squeezenet1_1", "--accuracy", str(table), "--json").json

    assert document["candidates"] == 2
    assert document["models"][0]["accuracy"] == 66.5
    assert document["models"][0]["fits"] is None


def test_a_candidate_that_cannot_be_read_is_a_line_and_the_others_are_chosen_from(
    latcast: Latcast, model_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "candidates"
    folder.mkdir()
    (folder / "broken.onnx").write_bytes(b"no model")
    (folder / "small.onnx").write_bytes(model_file.read_bytes())

    found = latcast("choose", "--on", PHONE, str(folder), "resnet18", "--all", "--json")

    assert found.code == 1
    assert {Path(each["name"]).name for each in found.json["models"]} == {"small.onnx", "resnet18"}
    assert "broken.onnx" in found.err


@pytest.mark.parametrize("count", ["many", "0", "10 X"])
def test_a_malformed_count_is_a_wrong_call(latcast: Latcast, count: str) -> None:
    found = latcast("choose", "--on", PHONE, "--params", count)

    assert found.code == 2
    assert f"--params '{count}', expected a number such as 10M" in found.err
