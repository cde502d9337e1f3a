"""Families by name."""

from __future__ import annotations

import pytest

from latcast.spaces.pytorchcv import family_of


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("resnet18_wd4", "resnet"), ("resnetbc14b", "resnet"), ("resnext26_32x4d", "resnext"), ("preresnet10", "preresnet"),
        ("sepreresnet10", "sepreresnet"), ("seresnet18", "seresnet"), ("mobilenet_wd4", "mobilenet"),
        ("mobilenetb_wd2", "mobilenet"), ("mobilenetv2b_w3d4", "mobilenetv2"), ("mobilenetv3_small_w7d20", "mobilenetv3"),
        ("fdmobilenet_w1", "fdmobilenet"), ("regnetx002", "regnet"), ("regnety016", "regnet"),
        ("efficientnet_edge_small_b", "efficientnet"), ("squeezenet_v1_0", "squeezenet"),
        ("squeezeresnet_v1_1", "squeezeresnet"), ("diracnet18v2", "diracnet"), ("bagnet9", "bagnet"), ("spnasnet", "spnasnet"),
    ],
)  # fmt: skip
def test_variants_belong_to_one_family(name: str, family: str) -> None:
    assert family_of(name) == family
