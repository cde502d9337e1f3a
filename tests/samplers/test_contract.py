"""Every sampler that latcast has, against the contract of samplers."""

from __future__ import annotations

from latcast.testing.contracts.kernels import SamplerContract


class TestRandom(SamplerContract):
    sampler_name = "random"


class TestPrior(SamplerContract):
    sampler_name = "prior"


class TestAdaptive(SamplerContract):
    sampler_name = "adaptive"
