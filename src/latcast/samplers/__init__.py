"""Which kernel configurations to measure next."""

from latcast.registry import Registry
from latcast.samplers.protocol import Sampler, SamplerMaker

SAMPLERS: Registry[SamplerMaker] = Registry(
    "sampler",
    {
        "random": "latcast.samplers.random:RandomSampler",
        "prior": "latcast.samplers.prior:PriorSampler",
        "adaptive": "latcast.samplers.adaptive:AdaptiveSampler",
        "vae": "latcast.samplers.vae:VaeSampler",
    },
    group="latcast.samplers",
)

__all__ = ["SAMPLERS", "Sampler", "SamplerMaker"]
