"""``latcast explain``, ``latcast sweep``, and what ``latcast predict`` says of kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM

pytestmark = pytest.mark.usefixtures("bundle")


def test_the_kernels_that_take_longest_are_shown_with_what_limits_them(latcast: Latcast) -> None:
    found = latcast("predict", "timm/resnet18", "--on", PLATFORM, "--top", "3")

    head, *rows = found.out.partition("\n\n")[2].splitlines()[1:]
    assert head.split() == ["kernel", "module", "type", "ms", "%", "of", "all", "limit"]
    assert len(rows) == 3
    assert {row.split()[-1] for row in rows} <= {"compute", "memory", "overhead"}
    assert all("layer" in row.split()[1] or row.split()[1] == "conv1" for row in rows)
    [document] = latcast("predict", "timm/resnet18", "--on", PLATFORM, "--top", "3", "--json").json["predictions"]
    latencies = [kernel["latency_ms"] for kernel in document["top"]]
    assert len(latencies) == 3
    assert latencies == sorted(latencies, reverse=True)
    assert "kernels" not in document


def test_kernels_are_added_up_by_module_and_by_type(latcast: Latcast) -> None:
    by_module = latcast("predict", "timm/resnet18", "--on", PLATFORM, "--by", "module").out
    by_type = latcast("predict", "timm/resnet18", "--on", PLATFORM, "--by", "type").out

    assert "\nlayer1" in by_module
    assert "\noverhead" in by_module
    assert "\nconv " in by_type
    assert latcast("predict", "resnet18", "--on", PLATFORM, "--by", "size").code == 2
    [document] = latcast("predict", "timm/resnet18", "--on", PLATFORM, "--by", "module", "--json").json["predictions"]
    assert "layer1.0.conv1" in document["by_module"]


def test_an_explanation_has_kernels_limits_and_hints(latcast: Latcast) -> None:
    found = latcast("explain", "mobilenet_v3_large", "--on", PLATFORM, "--top", "2")

    assert found.code == 0
    assert "\ntype " in found.out
    assert "\nlimit " in found.out
    assert "module" not in found.out.partition("\nlimit ")[0]  # the families' own graphs have no modules
    assert "changes were predicted" in found.out or "no hints: no change" in found.out
    [document] = latcast("explain", "mobilenet_v3_large", "--on", PLATFORM, "--json").json["explanations"]
    assert (document["model"], document["platform"]) == ("mobilenet_v3_large", PLATFORM)
    assert document["tried"] > 3
    assert all(hint["high_ms"] < 0 for hint in document["hints"])


def test_a_picture_is_of_one_platform(latcast: Latcast, trained_file: Path) -> None:
    found = latcast("explain", "resnet18", "--on", f"{PLATFORM},{trained_file}", "--plot", "x.png")

    assert "--plot draws one platform" in found.reason


def test_a_sweep_has_a_row_a_size(latcast: Latcast) -> None:
    pytest.importorskip("matplotlib")
    found = latcast("sweep", "squeezenet1_1", "--on", PLATFORM, "--shape", "input=1,3,{128..224..32},=", "--plot", "s.png")

    rows = [line.split() for line in found.out.splitlines()]
    assert rows[0][:4] == ["platform", "resolution", "latency", "ms"]
    assert [row[1] for row in rows[1:]] == ["128", "160", "192", "224"]
    assert Path("s.png").stat().st_size > 1000
    [document] = latcast("sweep", "squeezenet1_1", "--on", PLATFORM, "--shape", "{1,2},3,224,224", "--json").json["sweeps"]
    assert (document["varies"], [point["size"] for point in document["points"]]) == ("batch", [1, 2])


def test_a_sweep_over_nothing_is_refused_with_the_form(latcast: Latcast) -> None:
    reason = latcast("sweep", "resnet18", "--on", PLATFORM, "--shape", "input=1,3,224,224").reason

    assert "varies nothing; expected input=1,3,{128..320..32},=" in reason


def test_a_report_is_a_file_with_every_platform(latcast: Latcast, trained_file: Path) -> None:
    pytest.importorskip("jinja2")
    found = latcast("report", "squeezenet1_1", "--on", f"{PLATFORM},{trained_file}", "-o", "r.html", "--overlay", "r.json")

    assert found.code == 0
    assert "report: r.html\noverlay: r.json" in found.out
    assert Path("r.html").read_text().count('<details class="platform"') == 2
    assert "results" in json.loads(Path("r.json").read_text())
    document = latcast("report", "squeezenet1_1", "--on", PLATFORM, "-o", "r.html", "--json").json
    assert (document["report"], document["overlay"], len(document["explanations"])) == ("r.html", None, 1)


def test_an_overlay_that_cannot_be_written_is_refused_before_the_work(latcast: Latcast) -> None:
    assert "annotates a copy of an ONNX file" in latcast("report", "resnet18", "--on", PLATFORM, "--overlay", "r.onnx").reason
    assert not Path("report.html").exists()
