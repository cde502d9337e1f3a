"""Samplers, which choose the kernel configurations to measure next."""

from latcast.registry import Registry
from latcast.samplers.sampler import Sampler, SamplerMaker

SAMPLERS: Registry[SamplerMaker] = Registry(
    "sampler",
    {
        "random": "latcast.samplers.sampler:RandomSampler",
        "prior": "latcast.samplers.sampler:PriorSampler",
        "adaptive": "latcast.samplers.sampler:AdaptiveSampler",
    },
    group="latcast.samplers",
)

__all__ = ["SAMPLERS", "Sampler", "SamplerMaker"]
