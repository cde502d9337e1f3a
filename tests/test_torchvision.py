"""The environment that `make test` makes has a torchvision that works: real torch models come from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torchvision's networks are torch modules")

SCRIPT = "import torchvision; print(sum(p.numel() for p in torchvision.models.squeezenet1_1().parameters()))"


def test_a_network_of_torchvision_is_built() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    if "No module named 'torchvision'" in found.stderr:
        pytest.skip("torchvision is not installed")
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.split()[-1] == "1235496"  # its documentation
