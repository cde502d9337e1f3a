"""Which modules a command imports: a prediction needs neither what measures nor what trains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx

MOST_MODULES = 82

UNNEEDED = (
    "datasets", "devices", "fusion", "graph.writers", "hub", "measure", "report", "runtimes", "samplers", "search", "spaces",
    "testing", "workgroups",
)  # fmt: skip

SCRIPT = """
import json, sys
from latcast.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(name for name in sys.modules if name.partition(".")[0] == "latcast")]))
"""


def test_predicting_a_file_on_a_shipped_platform_imports_few_modules(tmp_path: Path) -> None:
    b = GraphBuilder("small")
    file = tmp_path / "small.onnx"
    file.write_bytes(to_onnx(b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 8, 3)))))
    command = ["predict", str(file), "--on", "pixel4/tflite-2.10/gpu/fp16"]

    finished = subprocess.run([sys.executable, "-c", SCRIPT, *command], capture_output=True, text=True, check=True)
    code, modules = json.loads(finished.stdout.splitlines()[-1])

    assert code == 0, finished.stderr
    rooms = tuple(f"latcast.{room}" for room in UNNEEDED)
    assert [name for name in modules if name in rooms or name.startswith(tuple(f"{room}." for room in rooms))] == []
    assert len(modules) < MOST_MODULES
