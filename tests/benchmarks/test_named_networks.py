"""Building the graphs that come with latcast under names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.named_networks import __main__ as command
from benchmarks.named_networks import recipes
from benchmarks.named_networks.__main__ import differs
from benchmarks.named_networks.accuracies import images_of
from latcast.graph.compact import pack, unpack
from latcast.graph.operators import graph_macs
from latcast.spaces.named_graphs import GraphFile, NamedGraph, Origin

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

ORIGIN = Origin("hand-made 1", "https://example.org", "MIT")


def small(width: int = 8, heads: int = 2) -> Any:
    """A convolution with 3x3 filters, attention over its pixels, a classifier of ten."""

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, width, 3, padding=1, bias=False)
            self.norm = torch.nn.BatchNorm2d(width)
            self.qkv = torch.nn.Linear(width, 3 * width)
            self.head = torch.nn.Linear(width, 10)

        def forward(self, image: Any) -> Any:
            x = torch.relu(self.norm(self.conv(image)))
            batch, channels, height, side = x.shape
            x = x.reshape(batch, channels, height * side).transpose(1, 2)
            q, k, v = self.qkv(x).reshape(batch, -1, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
            x = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, -1, channels)
            return self.head(x.mean(1))

    return Small()


def test_a_module_becomes_its_graph_without_being_computed() -> None:
    from benchmarks.named_networks.tracing import trace

    graph, parameters = trace(small, [(1, 3, 16, 16)], "small")

    pixels = 16 * 16
    assert parameters == 3 * 8 * 9 + 2 * 8 + 8 * 24 + 24 + 8 * 10 + 10
    assert graph_macs(graph) == pixels * (3 * 8 * 9 + 8 * 24 + 2 * pixels * 8) + 8 * 10
    assert (graph.shape("input"), [graph.shape(name) for name in graph.outputs]) == ((1, 3, 16, 16), [(1, 10)])
    assert len(graph.nodes_of_type["Softmax"]) == 1
    assert "Shape" not in graph.nodes_of_type
    assert unpack(pack(graph), "small").structure_key == graph.structure_key
    assert torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)).item() == 9  # it computes again


def test_large_weights_are_not_drawn() -> None:
    from benchmarks.named_networks.tracing import _uninitialised

    with _uninitialised():
        layer = torch.nn.Linear(1000, 1000)
        layer.weight.data = torch.full((1000, 1000), 2.0)
        torch.nn.init.constant_(layer.weight, 3)
        assert layer.weight[0, 0].item() == 2
    torch.nn.init.constant_(layer.weight, 3)
    assert layer.weight[0, 0].item() == 3


def test_building_goes_on_where_it_stopped_and_a_failure_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise RuntimeError("no such layer")

    made: list[str] = []

    def counted(name: str, width: int) -> Any:
        def make() -> Any:
            made.append(name)
            return small(width)

        return make

    listed = [
        recipes.Recipe("broken", 16, [(1, 3, 16, 16)], broken),
        recipes.Recipe("narrow", 16, [(1, 3, 16, 16)], counted("narrow", 8), million_parameters=0.00053, figures="here"),
        recipes.Recipe("wide", 16, [(1, 3, 16, 16)], counted("wide", 16)),
    ]
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(recipes, "COLLECTIONS", {"made": recipes.Collection(lambda: ORIGIN, lambda data: listed)})

    command.build("made", only=None, most=2, data=None, again=False)
    command.build("made", only=None, most=0, data=None, again=False)

    assert made == ["narrow", "wide"]
    file = GraphFile(tmp_path / "made.graphs")
    assert list(file.networks) == [("narrow", 16), ("wide", 16)]
    assert file.networks["narrow", 16].parameters == 538
    assert "no such layer" in (tmp_path / "cache" / "named-networks-made-failures.json").read_text()


@pytest.mark.parametrize(
    ("parameters", "macs", "off"),
    # Published: 2.00 million parameters, 1000 million multiply-accumulates.
    [(2_024_000, 1_000_000_000, False), (2_026_000, 1_000_000_000, True), (2_000_000, 1_014_000_000, False),
     (2_000_000, 1_016_000_000, True), (2_000_000, 985_500_000, False)],
)  # fmt: skip
def test_a_figure_may_be_a_percent_off_besides_its_rounding(parameters: int, macs: int, off: bool) -> None:
    assert differs(NamedGraph("net", 224, parameters, macs, ORIGIN, 2.0, 1000.0)) is off


@pytest.mark.parametrize(
    ("weights", "images"),
    [
        ("a1_in1k", "imagenet-1k"), ("fb_dist_in1k", "imagenet-1k"), ("mae_in1k_ft_in1k", "imagenet-1k"),
        ("sw_in12k_ft_in1k_384", "imagenet-21k"), ("goog_in21k_ft_in1k", "imagenet-21k"), ("ssld_stage2_ft_in1k", "imagenet-21k"),
        ("fb_swsl_ig1b_ft_in1k", "more"), ("ns_jft_in1k", "more"), ("clip_laion2b_augreg_ft_in12k_in1k", "more"),
        ("mim_m38m_ft_in22k_in1k", "more"), ("webli_ft_in1k", "more"), ("imagenet1k_swag_linear_v1", "more"),
    ],
)  # fmt: skip
def test_names_of_weights_say_what_they_saw(weights: str, images: str) -> None:
    assert images_of(weights) == images
