"""An environment made on a device by ssh: what is carried, what is installed, what is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from latcast.errors import MeasurementError, UnknownNameError
from latcast.measure.prepare import latcast_wheel, prepare, requirements, wheel_platforms


def test_a_wheel_holds_the_code_without_the_shipped_predictors() -> None:
    name, content = latcast_wheel()
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        assert wheel.testzip() is None
        inside = wheel.namelist()
        [about] = [each for each in inside if each.endswith("/METADATA")]
        recorded = wheel.read(about.replace("METADATA", "RECORD")).decode()
    assert name.endswith("-py3-none-any.whl")
    assert "latcast/measure/worker.py" in inside
    assert "latcast/kernels/rules/onnxruntime.json" in inside
    assert not [each for each in inside if "__pycache__" in each or "devices/shipped" in each]
    assert [line.split(",")[0] for line in recorded.splitlines()] == inside


def test_only_packages_for_measuring_are_installed() -> None:
    found = requirements(["onnxruntime", "litert"])
    names = [text.split(">")[0].split("<")[0] for text in found]
    assert {"numpy", "onnx", "onnxruntime", "ai-edge-litert"} <= set(names)
    assert len(found) == len(set(found))
    assert not {"lightgbm", "scipy", "SQLAlchemy", "torch", "fastapi"} & set(names)
    assert not any("extra ==" in text for text in found)
    with pytest.raises(UnknownNameError, match="no runtime is called 'onnxruntme'; known: onnxruntime"):
        requirements(["onnxruntme"])


def test_wheels_are_looked_for_under_the_names_that_fit_the_machine() -> None:
    assert wheel_platforms("aarch64", ("glibc", "2.19")) == [
        "manylinux_2_19_aarch64", "manylinux_2_18_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64",
    ]  # fmt: skip
    assert wheel_platforms("armv7l", ("", "")) == ["musllinux_1_2_armv7l", "musllinux_1_1_armv7l"]


def test_an_own_python_or_a_phone_is_not_prepared(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"names a Python of your own, which is left alone; prepare ssh://pi@board$"):
        prepare("ssh://pi@board?python=/opt/python")
    with pytest.raises(MeasurementError, match="is not an address of a device"):
        prepare("adb:0A1B")
