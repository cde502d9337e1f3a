"""What regressors see of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.kernels import KERNEL_TYPES, KernelTable, find_kernels, kernel_type
from latcast.predictors.features import feature_matrix, feature_names
from latcast.spaces.catalogue import build, model
from tests.predictors.made_up_platform import RULES


def test_the_features_of_a_linear_layer_by_hand() -> None:
    kind = kernel_type("linear")

    values = dict(zip(feature_names(kind), feature_matrix(kind, np.array([[4, 10, 6, 1, 0, 0]]))[0].tolist(), strict=True))

    assert {name: values[name] for name in kind.fields} == {
        "rows": 4, "in_features": 10, "out_features": 6, "fused_flops": 1, "fused_inputs": 0, "fused_transcendentals": 0,
    }  # fmt: skip
    assert (values["flops"], values["input_elements"], values["output_elements"], values["weight_elements"]) == (480, 40, 24, 60)
    assert values["intensity"] == pytest.approx(480 / 124)


@pytest.mark.parametrize("name", sorted(KERNEL_TYPES))
def test_every_type_has_a_finite_column_for_each_name(name: str) -> None:
    kind = KERNEL_TYPES.get(name)

    features = feature_matrix(kind, np.ones((3, len(kind.fields)), dtype=np.int64))

    assert features.shape == (3, len(feature_names(kind)))
    assert features.dtype == np.float64
    assert np.isfinite(features).all()


@pytest.mark.parametrize("network", ["mobilenet_v3_large", "deit_tiny_16", "resnext50_32x4d"])
def test_kernels_of_real_networks_have_finite_features(network: str) -> None:
    table = KernelTable.of([find_kernels(build(model(network)), RULES)])

    for name, rows in table.configurations.items():
        assert np.isfinite(feature_matrix(kernel_type(name), rows)).all()
