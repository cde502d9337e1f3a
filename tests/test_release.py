"""A release: what is built installs from an index and predicts, and a tag publishes what was tried."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from latcast.version import VERSION

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_what_is_built_installs_from_a_local_index_and_predicts(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / ".ci" / "release", tmp_path], capture_output=True, text=True, check=False)
    if done.returncode == 75:
        pytest.skip("the tools that build could not be fetched")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2
    assert done.stdout.splitlines()[-1].split()[:2] == ["resnet18", "raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu1/fp32"]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        f"latcast-{VERSION}-py3-none-any.whl",
        f"latcast-{VERSION}.tar.gz",
    ]
    with tarfile.open(tmp_path / f"latcast-{VERSION}.tar.gz") as archive:
        assert f"latcast-{VERSION}/src/latcast/__init__.py" in archive.getnames()


def test_only_a_tag_publishes_what_the_script_tried() -> None:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]

    assert any(step.get("run", "").startswith(".ci/release dist") for step in jobs["build"]["steps"])
    assert (jobs["publish"]["needs"], jobs["publish"]["if"]) == ("build", "github.ref_type == 'tag'")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


def test_a_folder_that_holds_something_is_not_released(tmp_path: Path) -> None:
    (tmp_path / "latcast-0.0.1.tar.gz").touch()

    done = subprocess.run([ROOT / ".ci" / "release", tmp_path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "is not empty" in done.stderr
