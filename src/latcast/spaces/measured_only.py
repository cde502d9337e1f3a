"""Networks whose latencies were published without their graphs: they are stored and compared, but have no known kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from latcast.errors import ModelError
from latcast.records import Reference


class MeasuredOnly:
    """A space whose members have names and latencies, and no graphs.

    Args:
        reason: Why they cannot be built, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def build(self, **parameters: Any) -> NoReturn:
        """Says why there is no graph.

        Raises:
            ModelError: Always.
        """
        raise ModelError(
            f"'{parameters.get('name', 'this network')}' cannot be built, only its latencies are known: {self.reason}"
        )

    def sample(self, count: int, seed: int) -> NoReturn:
        """Says why there is nothing to sample.

        Raises:
            ModelError: Always.
        """
        raise ModelError(f"no network can be drawn from measurements alone: {self.reason}")


USC_NAS = MeasuredOnly("Li et al. published the latencies of their 1000 synthetic networks without the architectures")
HUGGINGFACE = MeasuredOnly(
    "it is a model of the Hugging Face hub, whose configuration is not part of the measurements; export it to ONNX to predict it"
)
FBNET = MeasuredOnly("the table names the operations of its networks by numbers that it does not explain")
NCNN_BENCHMARK = MeasuredOnly("it is a network of ncnn's benchmark; give its .param file to predict it")
TIMM = MeasuredOnly("it is a model of timm, which latcast does not build; export it to ONNX to predict it")
AIHUB = MeasuredOnly("it is a model of Qualcomm AI Hub, which latcast does not build; export it to ONNX to predict it")
MLPERF = MeasuredOnly("it is a network of MLPerf that no family has; give its file to predict it")
PADDLE = MeasuredOnly("it is a model of PaddlePaddle that no family has; export it to ONNX to predict it")
NETSPRESSO = MeasuredOnly("it is a model of NetsPresso that no family has; export it to ONNX to predict it")
TI = MeasuredOnly("it is a model of TI's model zoo that no family has; give its file to predict it")
HAILO = MeasuredOnly("it is a model of Hailo's model zoo that no family has; give its ONNX file to predict it")
RKNN = MeasuredOnly("it is a model of Rockchip's model zoo that no family has; give its ONNX file to predict it")
TFLITE_BLOCK = MeasuredOnly("it is a block of a search space of which only the name was published")

_SPACES: Mapping[str, MeasuredOnly] = MappingProxyType(
    {
        "usc_nas": USC_NAS,
        "huggingface": HUGGINGFACE,
        "fbnet": FBNET,
        "ncnn_benchmark": NCNN_BENCHMARK,
        "tflite_block": TFLITE_BLOCK,
        "timm": TIMM,
        "aihub": AIHUB,
        "mlperf": MLPERF,
        "paddle": PADDLE,
        "netspresso": NETSPRESSO,
        "ti": TI,
        "hailo": HAILO,
        "rknn": RKNN,
    }
)

MEASURED_ONLY: Mapping[str, str] = MappingProxyType({name: f"{__name__}:{name.upper()}" for name in _SPACES})
"""Name of each such space to ``module:attribute``."""


def can_build(reference: Reference) -> bool:
    """Whether a reference has a graph; otherwise only its latencies are known."""
    return not why_not(reference)


def why_not(reference: Reference) -> str:
    """Why a reference for which :func:`can_build` says no cannot be built; empty for others."""
    if reference.space == "iiswc20":
        from latcast.spaces import iiswc20

        return iiswc20.why_not(reference.parameters)
    return _SPACES[reference.space].reason if reference.space in _SPACES else ""
