"""Units other than the CPU, and missing libraries: a runtime says so in one line, before anything is loaded."""

from __future__ import annotations

import sys

import pytest

from latcast.errors import MeasurementError, MissingExtraError, RuntimeFailure
from latcast.extras import PACKAGES
from latcast.measure.settings import WorkerSettings
from latcast.runtimes import RUNTIMES, get_runtime, runtime_on


def test_a_runtime_for_cpus_alone_has_no_gpu() -> None:
    with pytest.raises(RuntimeFailure, match="litert runs on cpu; not on 'gpu'"):
        runtime_on(get_runtime("litert"), "gpu")


@pytest.mark.parametrize("name", [name for name in RUNTIMES.names() if "gpu" in getattr(RUNTIMES.get(name), "units", ())])
def test_a_gpu_is_there_or_the_runtime_says_in_one_line_why_not(name: str) -> None:
    runtime = get_runtime(name)
    if runtime.available() is not None:
        pytest.skip(str(runtime.available()))
    reason = runtime_on(runtime, "gpu").available()
    assert reason is None or (reason and "\n" not in reason)
    assert runtime.available() is None  # it still runs on the CPU


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_network_is_not_loaded_on_the_cpu_in_the_name_of_a_gpu(name: str) -> None:
    from latcast.testing.networks import CONTRACT_NETWORKS

    runtime = get_runtime(name)
    if runtime.available() is not None:
        pytest.skip(str(runtime.available()))
    on_gpu = runtime_on(runtime, "gpu")
    reason = on_gpu.available()
    if reason is None:
        pytest.skip("there is one here")
    with pytest.raises(RuntimeFailure):
        on_gpu.load(CONTRACT_NETWORKS["conv_stack"]())


def test_settings_name_a_unit_and_as_many_threads_as_it_has() -> None:
    assert WorkerSettings("ncnn", unit="gpu").unit_name == "gpu"
    assert WorkerSettings("ncnn", threads=2, unit="2large", qualifiers=("warm",)).unit_name == "2large+warm"
    assert WorkerSettings("ncnn", threads=4).unit_name == "cpu4"
    with pytest.raises(MeasurementError, match="'2large' has 2 threads, not 1"):
        WorkerSettings("ncnn", unit="2large")
    with pytest.raises(MeasurementError, match="no unit is called 'tpu'"):
        WorkerSettings("ncnn", unit="tpu")


MODULES = {package.extra: module for module, package in PACKAGES.items()}


@pytest.mark.parametrize(("name", "module"), [(name, MODULES.get(name, name)) for name in RUNTIMES.names()])
def test_a_missing_library_is_named_with_the_command_that_adds_it(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latcast.testing.networks import CONTRACT_NETWORKS

    for hidden in (module, "_tools"):
        monkeypatch.setitem(sys.modules, hidden, None)
    extra = PACKAGES[module].extra
    assert f"pip install 'latcast[{extra}]'" in (get_runtime(name).available() or "")
    with pytest.raises(MissingExtraError, match=rf"latcast\[{extra}\]"):
        get_runtime(name).load(CONTRACT_NETWORKS["conv_stack"]())
