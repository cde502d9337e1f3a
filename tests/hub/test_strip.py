"""Model files as the page sends them: without weights, and with all that a latency depends on."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from latcast.graph.importers import load_graph
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.hub.pages import STATIC
from latcast.networks import read_model

_SCRIPT = """
import fs from "node:fs";
import { stripped } from "./strip.mjs";
for (const [from, to] of JSON.parse(fs.readFileSync(0))) fs.writeFileSync(to, stripped(new Uint8Array(fs.readFileSync(from))));
"""


def strip(files: list[Path], folder: Path) -> list[Path]:
    """The files as the page would send them."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js here to run the page's script; add it with: apt-get install nodejs")
    shutil.copy(STATIC / "strip.js", folder / "strip.mjs")
    (folder / "run.mjs").write_text(_SCRIPT)
    made = [folder / f"stripped-{file.name}" for file in files]
    pairs = json.dumps([[str(file), str(to)] for file, to in zip(files, made, strict=True)])
    subprocess.run([node, "run.mjs"], input=pairs, text=True, check=True, cwd=folder, timeout=60)
    return made


def test_a_stripped_file_is_the_same_network_in_a_few_kilobytes(tmp_path: Path) -> None:
    files = []
    for name in ("squeezenet1_1", "mobilenet_v3_small", "mobilevit_xxs"):
        files.append(tmp_path / f"{name}.onnx")
        files[-1].write_bytes(to_onnx(read_model(name)))
    files.append(tmp_path / "squeezenet1_1.tflite")
    files[-1].write_bytes(to_tflite(read_model("squeezenet1_1")))

    for file, made in zip(files, strip(files, tmp_path), strict=True):
        assert load_graph(made).structure_key == load_graph(file).structure_key
        assert file.stat().st_size > 4_000_000
        assert len(zlib.compress(made.read_bytes())) < 25_000


def test_a_file_that_is_not_a_model_is_sent_unchanged(tmp_path: Path) -> None:
    contents = [
        b"",
        b"hello",
        b"\x08\x07\x3a\xff\xff\xff\xff\xff\xff",
        b"\x00\x00\x00\x00TFL3",
        b"\xff\xff\xff\x7fTFL3" + bytes(40),
    ]
    files = [tmp_path / str(index) for index in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)

    assert [made.read_bytes() for made in strip(files, tmp_path)] == contents
