"""A distribution of its own adds to latcast what it announces, without an edit to latcast."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).resolve().parents[1] / "example_plugin"

Run = Callable[..., str]


def install(folder: Path) -> None:
    """What ``pip install --target`` leaves of the example, without a build backend."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "src" / "latcast_haar", folder / "latcast_haar", ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"latcast_haar-{project['version']}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    info.joinpath("entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in named.items()) for group, named in groups)
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs a command of Python where the example is installed and returns what it prints."""

    def run(*command: str, exit_code: int = 0) -> str:
        paths = [str(installed), *(path for path in sys.path if path.endswith("src")), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "LATCAST_HOME": str(tmp_path / "home"),
        }  # fmt: skip
        done = subprocess.run([sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_its_contracts_hold(run: Run) -> None:
    root = EXAMPLE.parents[1]
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(root), "-c", str(root / "pyproject.toml"))

    out = run("-m", "pytest", *options, str(EXAMPLE / "test_contracts.py"))

    assert " passed" in out
    assert "importorskip" not in out


def test_nothing_of_it_is_imported_with_latcast_or_for_names(run: Run) -> None:
    out = run(
        "-c",
        "import sys, latcast\n"
        "from latcast.runtimes import RUNTIMES\n"
        "from latcast.kernels.types import KERNEL_TYPES, kernel_type\n"
        "from latcast.graph.operators import lookup\n"
        "assert 'numpy' in RUNTIMES.names() and 'haar_wavelet' in KERNEL_TYPES.names()\n"
        "assert lookup('Conv') and kernel_type('conv')\n"
        "print([name for name in sys.modules if 'haar' in name])\n"
        "assert lookup('HaarWavelet').domain == 'haar.example'\n"
        "print([name for name in sys.modules if 'haar' in name])",
    )

    assert out.splitlines() == ["[]", "['latcast_haar', 'latcast_haar.operator']"]


FIND = """
import latcast, onnx
from onnx import TensorProto, helper
shapes = {"x": (1, 8, 32, 32), "y": None}
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
nodes = [
    helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Mul", ["r", "r"], ["s"]),
    helper.make_node("HaarWavelet", ["s"], ["y"], domain="haar.example"),
]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("haar.example", 1)]
onnx.save(helper.make_model(helper.make_graph(nodes, "small", ends[:1], ends[1:]), opset_imports=opsets), "small.onnx")
graph = latcast.load_graph("small.onnx", strict=True)
print(graph.shape("y"))
from latcast.kernels import find_kernels, load_rules
print([(kernel.kernel_type, kernel.configuration[:-3]) for kernel in find_kernels(graph, load_rules("numpy"))])
open("net.layers", "w").write("input 1 3 32 32\\nconv 8 3\\nhaar\\n")
print(latcast.load_graph("net.layers").nodes[-1].op_type)
"""


def test_its_operator_and_kernel_types_are_found_in_an_onnx_file(run: Run) -> None:
    assert run("-c", FIND).splitlines() == [
        "(1, 32, 16, 16)",
        "[('squared_relu', (8192,)), ('haar_wavelet', (1, 8, 32, 32))]",
        "HaarWavelet",
    ]


FUSION = """
from latcast.fusion.test_cases import ChainSetting, pair_case, pattern_case, tested_operators, tested_patterns
from latcast.kernels import find_kernels, load_rules
from latcast.spaces.catalogue import build
assert "haar_wavelet" in tested_operators() and "squared_relu" not in tested_operators()
pair = pair_case("conv", "haar_wavelet", ChainSetting())
pattern = pattern_case("squared_relu", tested_patterns()["squared_relu"], ChainSetting(wall="softmax"))
for case, name in ((pair, "haar_wavelet"), (pattern, "squared_relu")):
    kernels = find_kernels(build(case.together), load_rules("numpy"))
    print(sum(kernel.kernel_type == name for kernel in kernels))
"""


def test_its_operator_and_idiom_are_tested_for_fusion(run: Run) -> None:
    assert run("-c", FUSION).split() == ["4", "4"]


def test_its_runtime_measures_a_file_of_its_format(run: Run, tmp_path: Path) -> None:
    tmp_path.joinpath("net.layers").write_text("input 1 3 32 32\nconv 8 3\nhaar\n")

    out = run("-m", "latcast", "measure", "net.layers", "--runtime", "numpy", "--rounds", "1", "--json", "--breakdown")

    assert "HaarWavelet" in out
    assert "local/numpy-" in out


@pytest.mark.slow
def test_a_profile_trains_its_kernel_types_by_its_sampler_and_its_regressor(run: Run, tmp_path: Path) -> None:
    tmp_path.joinpath("net.layers").write_text("input 1 3 32 32\nconv 8 3\nhaar\n")
    chosen = ("--learn-from", "kernels", "--sampler", "small_first", "--model", "nearest", "--budget", "0.5")

    run("-m", "latcast", "profile", "--runtime", "numpy", *chosen)
    out = run("-m", "latcast", "predict", "net.layers", "--on", "local/numpy", "--breakdown")

    assert "haar_wavelet" in out


def test_code_that_cannot_be_imported_is_an_error_that_names_the_package(installed: Path, run: Run) -> None:
    broken = installed / "broken-0.1.dist-info"
    broken.mkdir()
    broken.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    broken.joinpath("entry_points.txt").write_text("[latcast.operators]\nBroken = no_such_module:OPERATOR\n")

    out = run(
        "-c", "import latcast.graph.operators as o\ntry: o.lookup('Broken')\nexcept Exception as e: print(type(e).__name__, e)"
    )
    shutil.rmtree(broken)

    assert "LatcastError the operator 'Broken' of the package broken cannot be imported (no_such_module:OPERATOR)" in out
