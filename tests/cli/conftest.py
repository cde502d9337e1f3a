"""Running the command line in this process, with a home of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from latcast.cli.main import run
from latcast.datasets.opening import open_measurements
from latcast.predictors import bundle_index
from latcast.predictors.bundle import save_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces.catalogue import build, model
from latcast.training.from_store import train
from tests.cli.dataset import DATASET, UNSEEN


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def reason(self) -> str:
        """The one line by which a command that failed says why."""
        assert self.code == 1, self
        assert self.out == ""
        assert self.err.endswith("\n")
        [line] = self.err.splitlines()
        assert line.startswith("latcast: ")
        assert "Traceback" not in line
        return line.removeprefix("latcast: ")


Latcast = Callable[..., Outcome]

NEGATIVE_ZERO = re.compile(r"(?<![\w.-])-0(\.0*)?(?![\w.-])")
"""What no command prints."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder: empty, nothing shipped; the current folder is another empty one."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bundle_index, "SHIPPED_FOLDER", tmp_path / "shipped")
    monkeypatch.delenv("LATCAST_DEBUG", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def caller(capfd: pytest.CaptureFixture[str], run: Callable[[Sequence[str]], int]) -> Latcast:
    """Runs commands and keeps what they print."""

    def call(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert not NEGATIVE_ZERO.search(captured.out + captured.err)
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def latcast(home: Path, capfd: pytest.CaptureFixture[str]) -> Latcast:
    """Runs a command: ``latcast("predict", "resnet18", "--on", "local")``."""
    return caller(capfd, run)


@pytest.fixture(scope="session")
def trained() -> PlatformPredictor:
    """From real measurements, without the unseen families."""
    with open_measurements(DATASET) as store:
        return train(store, leave_out=UNSEEN, licence="CC0-1.0")


@pytest.fixture(scope="session")
def trained_file(trained: PlatformPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle, to copy."""
    return save_bundle(trained, tmp_path_factory.mktemp("trained") / "trained.zip")


@pytest.fixture
def bundle(home: Path, trained: PlatformPredictor, trained_file: Path) -> Path:
    """On the user's index."""
    path = bundle_index.bundle_path(trained.platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(trained_file, path))


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SqueezeNet 1.1, quick to write, to load and to run."""
    from latcast.graph.writers.onnx import to_onnx

    path = tmp_path_factory.mktemp("models") / "squeezenet.onnx"
    path.write_bytes(to_onnx(build(model("squeezenet1_1"))))
    return path
