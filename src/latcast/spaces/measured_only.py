"""Networks whose latencies were published under names: those of which no graph is known are stored and compared, no more."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from latcast.records import Reference
from latcast.spaces.named_graphs import NamedNetworks

USC_NAS = NamedNetworks("usc_nas", "Li et al. published the latencies of their 1000 synthetic networks without the architectures")
HUGGINGFACE = NamedNetworks(
    "huggingface",
    "it is a model of the Hugging Face hub, whose configuration is not part of the measurements; export it to ONNX to predict it",
)
FBNET = NamedNetworks("fbnet", "the table names the operations of its networks by numbers that it does not explain")
NCNN_BENCHMARK = NamedNetworks("ncnn_benchmark", "it is a network of ncnn's benchmark; give its .param file to predict it")
TIMM = NamedNetworks("timm", "it is a model of timm of which no graph comes with latcast; export it to ONNX to predict it")
AIHUB = NamedNetworks(
    "aihub", "it is a model of Qualcomm AI Hub of which no graph comes with latcast; export it to ONNX to predict it"
)
TORCHVISION = NamedNetworks(
    "torchvision", "it is a model of torchvision of which no graph comes with latcast; export it to ONNX to predict it"
)
MLPERF = NamedNetworks("mlperf", "it is a network of MLPerf that no family has; give its file to predict it")
PADDLE = NamedNetworks("paddle", "it is a model of PaddlePaddle that no family has; export it to ONNX to predict it")
NETSPRESSO = NamedNetworks("netspresso", "it is a model of NetsPresso that no family has; export it to ONNX to predict it")
TI = NamedNetworks("ti", "it is a model of TI's model zoo that no family has; give its file to predict it")
HAILO = NamedNetworks("hailo", "it is a model of Hailo's model zoo that no family has; give its ONNX file to predict it")
RKNN = NamedNetworks("rknn", "it is a model of Rockchip's model zoo that no family has; give its ONNX file to predict it")
TFLITE_BLOCK = NamedNetworks("tflite_block", "it is a block of a search space of which only the name was published")

_SPACES: Mapping[str, NamedNetworks] = MappingProxyType(
    {
        "usc_nas": USC_NAS,
        "huggingface": HUGGINGFACE,
        "fbnet": FBNET,
        "ncnn_benchmark": NCNN_BENCHMARK,
        "tflite_block": TFLITE_BLOCK,
        "timm": TIMM,
        "torchvision": TORCHVISION,
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
    """Return whether a reference has a graph; otherwise only its latencies are known."""
    return not why_not(reference)


def why_not(reference: Reference) -> str:
    """Return why a reference cannot be built, where :func:`can_build` is False; else empty."""
    if reference.space == "iiswc20":
        from latcast.spaces import iiswc20

        return iiswc20.why_not(reference.parameters)
    return _SPACES[reference.space].why_not(reference.parameters) if reference.space in _SPACES else ""
