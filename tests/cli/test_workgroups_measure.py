"""``latcast workgroups measure`` and ``devices``, on a GPU that is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latcast.errors import MeasurementError, MissingExtraError
from latcast.workgroups.gpu_interfaces import GPU_INTERFACES
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.workloads import Convolution
from tests.cli.conftest import Latcast
from tests.workgroups.made_up_gpu import PROFILE, MadeUpInterface, MadeUpSession, quiet_ms

OP = "dwconv:8x8x16,k3,s1"


def with_gpu(monkeypatch: pytest.MonkeyPatch, **options: Any) -> MadeUpInterface:
    found = MadeUpInterface(**options)
    monkeypatch.setattr(GPU_INTERFACES, "_targets", {"made-up": "nowhere:at_all"})
    monkeypatch.setattr(GPU_INTERFACES, "_loaded", {"made-up": found})
    monkeypatch.setattr(GPU_INTERFACES, "_scanned", True)
    return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, home: Path) -> MadeUpInterface:
    return with_gpu(monkeypatch, noise=0.05)


def measure(latcast: Latcast, *options: object, op: str = OP) -> Any:
    return latcast("workgroups", "measure", op, "--on", "made-up", "--rounds", "4", *options)


def test_scripts_get_the_ranking_and_how_far_it_can_be_trusted(latcast: Latcast, gpu: MadeUpInterface, tmp_path: Path) -> None:
    found = measure(latcast, "--max-sizes", "40", "-o", tmp_path / "sweep.json", "--json").json

    assert (found["schema"], found["device"]["title"]) == (1, "made-up GPU")
    (sweep,) = found["sweeps"]
    assert (sweep["operator"], sweep["kernel"], sweep["grid"]) == (OP, "depthwise_conv_1x1", [8, 8, 4])
    assert (sweep["sizes"], sweep["rounds"], sweep["failed"], sweep["why_not_ranked"]) == (40, 4, {}, None)
    assert sweep["split_half_spearman"] > 0.9
    times = [row["latency_ms"] for row in sweep["ranking"]]
    assert times == sorted(times)
    assert sweep["ranking"][0]["relative"] == 1.0
    assert [choice["name"] for choice in sweep["choices"]] == ["rules", "kFast", "fixed"]
    fixed = sweep["choices"][2]
    assert fixed["size"] == [8, 4, 1]
    assert times[fixed["rank"] - 1] == pytest.approx(quiet_ms(WorkGroup(8, 4)), rel=0.05)
    assert [session.closed for session in gpu.sessions] == [True]


def test_people_get_the_best_sizes_with_the_recommended_ones_marked(
    latcast: Latcast, gpu: MadeUpInterface, tmp_path: Path
) -> None:
    out = measure(latcast, "--max-sizes", "40", "-o", tmp_path / "sweep.json").out.splitlines()

    assert out[0] == f"{OP} on made-up GPU: 40 sizes of a 8x8x4 grid, 4 rounds"
    assert out[1].split() == ["rank", "size", "latency", "ms", "x", "best", "recommended", "by"]
    assert any(line.split()[1] == "8x4x1" and "fixed" in line for line in out[2:-3])
    assert any("kFast" in line for line in out[2:-3])
    assert any("rules" in line for line in out[2:-3])
    assert out[-3].startswith("a size that the rules leave: ")
    assert out[-2].startswith("split-half rank correlation 0.9")
    assert out[-1] == f"sweep: {tmp_path / 'sweep.json'}"


def test_an_order_that_is_noise_is_refused(latcast: Latcast, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, noise=0.5, order_matters=False)

    people, scripts = measure(latcast), measure(latcast, "--json")

    assert (people.code, scripts.code) == (3, 3)
    assert "rank  size" not in people.out
    assert "expected at least 0.5: the order of the sizes is noise and is not given; measure more" in people.err
    (sweep,) = scripts.json["sweeps"]
    assert (sweep["ranking"], sweep["choices"], sweep["rules_mean_relative"]) == (None, None, None)
    assert sweep["split_half_spearman"] < 0.5
    assert "noise" in sweep["why_not_ranked"]


def test_running_it_again_adds_rounds(latcast: Latcast, gpu: MadeUpInterface, home: Path) -> None:
    first = measure(latcast, "--max-sizes", "20", "--json").json["sweeps"][0]
    again = measure(latcast, "--max-sizes", "20", "--json")
    more = measure(latcast, "--max-sizes", "20", "--rounds", "6", "--json").json["sweeps"][0]

    assert "has 4 rounds of an earlier run already; a larger --rounds adds to them" in again.err
    assert (first["rounds"], again.json["sweeps"][0]["rounds"], more["rounds"]) == (4, 4, 6)
    assert first["cache"] == more["cache"]
    path = home / "measurements" / "workgroups" / "made-up-dwconv-8x8x16-k3-s1-depthwise_conv_1x1-all.json"
    assert Path(more["cache"]) == path
    assert read_cache(path)[0].rounds == 6


def test_the_shortlist_is_measured_alone_where_asked(latcast: Latcast, gpu: MadeUpInterface) -> None:
    (found,) = measure(latcast, "--sizes", "shortlist", "--json").json["sweeps"]

    assert 12 <= found["sizes"] <= 14
    assert found["cache"].endswith("-shortlist.json")


def test_a_block_is_another_kernel_with_another_grid(latcast: Latcast, gpu: MadeUpInterface) -> None:
    options = ("--max-sizes", "20", "--block", "2,2,1", "--json")
    (found,) = measure(latcast, *options, op="conv:8x8x8,k3,s1,c16").json["sweeps"]

    assert (found["kernel"], found["grid"]) == ("conv_2x2x1", [4, 4, 4])


def test_a_models_convolutions_go_into_a_folder(latcast: Latcast, gpu: MadeUpInterface, tmp_path: Path) -> None:
    model = tmp_path / "two.onnx"
    write_two_convolutions(model)

    found = measure(latcast, "--max-sizes", "14", "-o", tmp_path / "sweeps", "--json", op=str(model)).json["sweeps"]

    assert [sweep["operator"] for sweep in found] == ["conv:8x8x4,k3,s1,c8", "dwconv:8x8x8,k3,s1"]
    assert {Path(sweep["cache"]).parent for sweep in found} == {tmp_path / "sweeps"}
    assert all(Path(sweep["cache"]).is_file() for sweep in found)


def test_an_operator_that_cannot_be_measured_does_not_lose_the_others(
    latcast: Latcast, gpu: MadeUpInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "two.onnx"
    write_two_convolutions(model)
    usual = gpu.session

    def session(device: int, workload: Convolution) -> MadeUpSession:
        if workload.kind == "conv":
            raise MeasurementError("no memory left")
        return usual(device, workload)

    monkeypatch.setattr(gpu, "session", session)
    found = measure(latcast, "--max-sizes", "14", "--json", op=str(model))

    assert [sweep["operator"] for sweep in found.json["sweeps"]] == ["dwconv:8x8x8,k3,s1"]
    assert "conv:8x8x4,k3,s1,c8 is left out: no memory left" in found.err


def write_two_convolutions(path: Path) -> None:
    """A 3x3 convolution from 4 to 8 channels, twice the same depthwise one behind it, on 8 x 8 maps."""
    import numpy as np
    import onnx

    weights = [np.ones((8, 4, 3, 3), np.float32), np.ones((8, 1, 3, 3), np.float32)]
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        make("Conv", ["a", "w1"], ["b"], pads=[1, 1, 1, 1], group=8),
        make("Conv", ["b", "w1"], ["y"], pads=[1, 1, 1, 1], group=8),
    ]
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    held = [onnx.numpy_helper.from_array(array, f"w{index}") for index, array in enumerate(weights)]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", kind, (1, 4, 8, 8))], [value("y", kind, (1, 8, 8, 8))], held)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def test_devices_are_listed_with_unknown_values(latcast: Latcast, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, profiles=(PROFILE, replace(PROFILE, title="silent", simultaneous_items=None)))

    out = latcast("workgroups", "devices").out
    found = latcast("workgroups", "devices", "--json").json

    assert [row["id"] for row in found["devices"]] == ["made-up:0", "made-up:1"]
    assert [row["simultaneous_items"] for row in found["devices"]] == [8, None]
    assert out.count("not known") == 1


def test_a_missing_package_is_listed_beside_the_devices(latcast: Latcast, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = with_gpu(monkeypatch)

    def missing() -> Any:
        raise MissingExtraError("pyopencl", "opencl", "timing work-group sizes with OpenCL")

    monkeypatch.setattr(gpu, "profiles", missing)
    assert "pip install 'latcast[opencl]'" in latcast("workgroups", "devices").out
    assert list(latcast("workgroups", "devices", "--json").json["absent"]) == ["made-up"]


def test_an_interruption_keeps_the_rounds_before_it(
    latcast: Latcast, gpu: MadeUpInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = MadeUpSession.run

    def interrupted(session: MadeUpSession, size: WorkGroup) -> float:
        # Two launches of each of 20 sizes to prepare them, then two rounds and a half.
        if len(session.launched) == 2 * 20 + 50:
            raise KeyboardInterrupt
        return usual(session, size)

    monkeypatch.setattr(MadeUpSession, "run", interrupted)
    path = tmp_path / "sweep.json"
    found = measure(latcast, "--max-sizes", "20", "-o", path)

    assert found.code == 130
    assert "what was timed is kept: the same command goes on with it" in found.err
    assert read_cache(path)[0].rounds == 2
    assert gpu.sessions[0].closed


def test_advice_is_given_for_a_device_that_is_here(latcast: Latcast, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, profiles=(replace(PROFILE, simultaneous_items=None),))

    found = latcast("workgroups", "advise", OP, "--on", "made-up", "--json").json
    out = latcast("workgroups", "advise", OP, "--on", "made-up").out

    assert (found["device"]["title"], found["device"]["simultaneous_items"]) == ("made-up GPU", None)
    assert "rule II cannot be evaluated: how many items a core executes at once (K_ac) is not known" in out
