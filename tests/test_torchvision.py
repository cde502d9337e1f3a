"""The environment that `make test` makes has a torchvision that works: real torch models come from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torchvision's networks are torch modules")

SCRIPT = """
import torch, torchvision
from latcast.graph.importers import from_torch
from latcast.graph.operators import graph_macs
graph = from_torch(torchvision.models.squeezenet1_1().eval(), (torch.zeros(1, 3, 224, 224),))
print(graph_macs(graph))
"""


def test_a_network_of_torchvision_is_read() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    if "No module named 'torchvision'" in found.stderr:
        pytest.skip("torchvision is not installed")
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.split()[-1] == "349151936"  # 0.35 G in its documentation
