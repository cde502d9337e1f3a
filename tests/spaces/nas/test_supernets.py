"""Search spaces: encodings, references, published members."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.errors import LatcastError, ModelError
from latcast.graph.operators import graph_macs
from latcast.spaces.catalogue import build, model
from latcast.spaces.nas.supernet import SUPERNETS, Supernet
from tests.conftest import PUBLISHED_DATA_VARIABLE, REPOSITORY_ROOT
from tests.spaces.families.counting import published_count
from tests.spaces.nas.published_members import PUBLISHED

DATA = Path(os.environ.get(PUBLISHED_DATA_VARIABLE, REPOSITORY_ROOT.parent / "shared" / "data"))
SPECIALISED = DATA / "ofa_luts" / "ofa" / "ofa_specialized"

ALL = pytest.mark.parametrize("name", SUPERNETS.names())


@ALL
def test_an_encoding_goes_through_json_and_comes_back(name: str) -> None:
    supernet = SUPERNETS.get(name)
    for encoding in supernet.distinct_encodings(5, 1):
        parameters = json.loads(json.dumps(supernet.decode(encoding)))
        assert supernet.encode(parameters).tolist() == encoding.tolist()


@ALL
def test_a_sampled_reference_builds_the_network_of_its_encoding(name: str) -> None:
    supernet = SUPERNETS.get(name)
    (reference,), (encoding,) = supernet.sample(1, 3), supernet.distinct_encodings(1, 3)
    graph = supernet.build(**reference.parameters)
    assert graph.structure_key == supernet.graph_of_rows(supernet.rows(encoding[None])[0].tolist()).structure_key


@ALL
def test_an_inactive_choice_changes_nothing(name: str) -> None:
    supernet = SUPERNETS.get(name)
    encodings = np.random.default_rng(0).integers(0, supernet.choices, size=(200, len(supernet.choices)))
    canonical = supernet.canonical(encodings)
    assert (supernet.rows(canonical) == supernet.rows(encodings)).all()
    assert (supernet.canonical(canonical) == canonical).all()


def test_two_depths_of_ofa_have_inactive_blocks() -> None:
    supernet = SUPERNETS.get("ofa_mobilenet_v3")
    shallow = np.full((1, len(supernet.choices)), 0)
    other = shallow.copy()
    other[0, 6 + 3] = 2  # the kernel size of the fourth block of the first stage, which two blocks do not reach
    assert supernet.canonical(other).tolist() == shallow.tolist()
    other[0, 1] = 2  # with four blocks it counts
    assert supernet.canonical(other)[0, 9] == 2


@pytest.mark.parametrize(
    ("space", "member", "parameters", "macs"),
    [
        # timm's and torchvision's counts, exactly.
        ("bignas", "efficientnet_b0", 5_288_548, 386e6),
        ("ofa_resnet", "resnet50d", 25_576_264, 4.35e9),
        ("autoformer", "deit_tiny_16", 5_717_416, 1.258e9),
        ("fbnet_v3", "fbnet_v3_b", 8_600_000, None),
    ],
)
def test_published_members_have_the_published_sizes(space: str, member: str, parameters: int, macs: float | None) -> None:
    supernet = SUPERNETS.get(space)
    published = PUBLISHED[space, member]
    supernet.encode(published)  # a member, not only something that can be built
    graph = supernet.build(**published)
    assert published_count(graph) == pytest.approx(parameters, rel=0 if parameters % 1000 else 6e-4)
    if macs is not None:
        assert graph_macs(graph) == pytest.approx(macs, rel=6e-3)


def test_the_published_members_of_bignas_and_the_family_are_the_same_network() -> None:
    supernet = SUPERNETS.get("bignas")
    ours = supernet.build(**PUBLISHED["bignas", "efficientnet_b0"])
    assert ours.structure_key == build(model("efficientnet_b0")).structure_key


def specialised() -> list[Path]:
    return sorted(SPECIALISED.iterdir()) if SPECIALISED.is_dir() else []


def specialised_member(folder: Path) -> tuple[Supernet, dict[str, Any], dict[str, Any]]:
    """The space, the parameters and the configuration of one of Once-for-all's specialised networks."""
    config = json.loads((folder / "net.config").read_text())
    blocks = [block["mobile_inverted_conv"] for block in config["blocks"]][1:]
    proxyless = config["name"] == "ProxylessNASNets"
    wide = {16: "", 24: "_w12"}.get(config["first_conv"]["out_channels"], "")
    stages: list[list[dict[str, Any]]] = []
    for block in blocks:
        if not stages or block["out_channels"] != stages[-1][-1]["out_channels"]:
            stages.append([])
        stages[-1].append(block)
    last = [stages.pop()[0]] if proxyless else []
    padded = [stage + [stage[-1]] * (4 - len(stage)) for stage in stages]
    listed = [block for stage in padded for block in stage] + last
    parameters = {
        "resolution": json.loads((folder / "run.config").read_text())["image_size"],
        "depths": [len(stage) for stage in stages],
        "kernels": [block["kernel_size"] for block in listed],
        "expansions": [block["expand_ratio"] for block in listed],
    }
    return SUPERNETS.get("ofa_proxylessnas" if proxyless else f"ofa_mobilenet_v3{wide}"), parameters, config


@pytest.mark.skipif(not SPECIALISED.is_dir(), reason="the specialised networks of Once-for-all are not there")
@pytest.mark.parametrize("folder", specialised(), ids=lambda folder: folder.name)
def test_specialised_networks_are_members_with_the_widths_of_their_files(folder: Path) -> None:
    supernet, parameters, config = specialised_member(folder)
    graph = supernet.build(**parameters)
    convolutions = [graph.shape(node.inputs[1]) for node in graph.nodes if node.op_type == "Conv"]
    depthwise = [shape for shape in convolutions if shape[1] == 1]
    blocks = [block["mobile_inverted_conv"] for block in config["blocks"]]
    assert [(shape[0], shape[2]) for shape in depthwise] == [
        (block["mid_channels"] or block["in_channels"], block["kernel_size"]) for block in blocks
    ]
    additions = sum(node.op_type == "Add" for node in graph.nodes)
    assert additions == sum(block["shortcut"] is not None for block in config["blocks"])
    gates = sum(node.op_type == "HardSigmoid" for node in graph.nodes)
    assert gates == sum(bool(block["use_se"]) for block in blocks)
    heads = [config[name]["out_channels"] for name in ("final_expand_layer", "feature_mix_layer") if name in config]
    assert [shape[0] for shape in convolutions[-len(heads) :]] == heads


@pytest.mark.skipif(not SPECIALISED.is_dir(), reason="the specialised networks of Once-for-all are not there")
@pytest.mark.parametrize("million", [389, 482, 595])
def test_networks_published_by_their_macs_have_them(million: int) -> None:
    (folder,) = SPECIALISED.glob(f"flops-{million}M*")
    supernet, parameters, _ = specialised_member(folder)
    assert graph_macs(supernet.build(**parameters)) / 1e6 == pytest.approx(million, rel=0.01)


def test_a_small_space_says_how_many_members_it_has() -> None:
    with pytest.raises(LatcastError, match="different members of the space 'nas_bench_201'"):
        SUPERNETS.get("nas_bench_201").distinct_encodings(15_000, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depths": [2]}, "takes resolution, .*found depths"), ({"widths": [1.0]}, "'widths' .* expected 4"),
        ({"resolution": "224"}, "'resolution' .* is '224'"), ({"resolution": 999}, "'resolution' 999 is no choice"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_have_no_encoding(changes: dict[str, object], words: str) -> None:
    supernet = SUPERNETS.get("ofa_resnet")
    with pytest.raises(ModelError, match=words):
        supernet.encode({**PUBLISHED["ofa_resnet", "resnet50d"], **changes})


@pytest.mark.parametrize("encoding", [[0] * 3, [99] * 6])
def test_an_encoding_of_another_space_is_not_decoded(encoding: list[int]) -> None:
    with pytest.raises(ModelError, match=r"expected \(networks, 6\) indices"):
        SUPERNETS.get("nas_bench_201").decode(encoding)
