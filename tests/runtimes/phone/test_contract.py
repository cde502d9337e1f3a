"""Every tool on a double of a phone keeps the contract of runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from latcast.runtimes import get_runtime
from latcast.runtimes.mnn import Mnn
from latcast.runtimes.phone import PhoneRuntime
from latcast.runtimes.protocol import Runtime
from latcast.testing.contracts.runtimes import RuntimeContract
from tests.runtimes.phone.android import Android, settings


@pytest.fixture(scope="module")
def android(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Android]:
    with Android(tmp_path_factory.mktemp("android")) as double:
        yield double


class OnAPhone(RuntimeContract):
    library: ClassVar[str]
    """What computes in the double."""

    @pytest.fixture
    def runtime(self, android: Android, monkeypatch: pytest.MonkeyPatch) -> Runtime:
        pytest.importorskip(self.library)
        for name, value in settings(android).items():
            monkeypatch.setenv(name, value)
        runtime = get_runtime(self.runtime_name)
        assert isinstance(runtime, PhoneRuntime)
        runtime.sleep = lambda seconds: None
        reason = runtime.available()
        assert reason is None, reason
        return runtime


class TestBenchmarkModel(OnAPhone):
    runtime_name = "litert"
    library = "ai_edge_litert"


@pytest.mark.slow
class TestBenchncnn(OnAPhone):
    runtime_name = "ncnn"
    library = "ncnn"
    hands_outputs_over = False
    profiles = False


@pytest.mark.slow
@pytest.mark.skipif(Mnn().available() is not None, reason=Mnn().available() or "")
class TestMnnBasic(OnAPhone):
    runtime_name = "mnn"
    library = "MNN"
    hands_outputs_over = False


@pytest.mark.slow
class TestOnnxruntimePerfTest(OnAPhone):
    runtime_name = "onnxruntime"
    library = "onnxruntime"
    hands_outputs_over = False
