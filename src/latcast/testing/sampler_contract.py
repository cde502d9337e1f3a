"""The contract that every sampler is tested against.

A plug-in's tests subclass :class:`SamplerContract` and name the sampler; pytest then runs every test below on it::

    from latcast.testing.sampler_contract import SamplerContract

    class TestMySampler(SamplerContract):
        sampler_name = "mysampler"

This module needs pytest and is imported by tests only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import ClassVar

import pytest

from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules
from latcast.samplers import SAMPLERS
from latcast.samplers.sampler import Sampler
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts
from latcast.spaces.parametrisations import Axis, Span

KERNEL_TYPES = ("conv", "depthwise_conv", "concat")

every_type = pytest.mark.parametrize("type_name", KERNEL_TYPES)


def space_of(type_name: str) -> KernelSpace:
    return KernelSpace(type_name, load_rules("onnxruntime"))


def listed_in(space: KernelSpace, count: int = 30) -> ConfigurationCounts:
    """Configurations as if networks had them, the first ones more often."""
    rng = Random(5)
    drawn = [row for row in (space.draw(rng) for _ in range(4 * count)) if row is not None]
    return {row: 1 + count // (index + 1) for index, row in enumerate(drawn[:count])}


def small_space() -> KernelSpace:
    """Softmax over one row of 8 to 11 columns: four configurations."""
    space = space_of("softmax")
    space.parametrisation = replace(space.parametrisation, axes=(Axis(("rows",), ((1,),)),), spans=(Span("columns", 8, 11),))
    return space


class SamplerContract:
    """What holds of every sampler."""

    sampler_name: ClassVar[str]
    """Name in :data:`latcast.samplers.SAMPLERS`."""

    learns_from_none: ClassVar[bool] = True
    """Whether it can draw kernels of a type that no network has."""

    @pytest.fixture
    def make(self) -> Callable[..., Sampler]:
        """Makes the sampler of a kernel type, with a seed."""
        maker = SAMPLERS.get(self.sampler_name)

        def make(type_name: str, seed: int = 0) -> Sampler:
            space = space_of(type_name)
            return maker(space, listed_in(space), seed)

        return make

    @every_type
    def test_all_suggestions_are_valid(self, make: Callable[..., Sampler], type_name: str) -> None:
        space = space_of(type_name)

        found = make(type_name).suggest(40)

        assert found
        assert [row for row in found if not space.contains(row)] == []

    @every_type
    def test_nothing_is_suggested_twice(self, make: Callable[..., Sampler], type_name: str) -> None:
        sampler = make(type_name)

        found = [row for count in (1, 20, 30) for row in sampler.suggest(count)]

        assert len(set(found)) == len(found)
        assert len(found) >= 40

    @every_type
    def test_no_more_is_suggested_than_was_asked_for(self, make: Callable[..., Sampler], type_name: str) -> None:
        sampler = make(type_name)

        assert sampler.suggest(0) == []
        assert len(sampler.suggest(7)) <= 7

    @every_type
    def test_what_was_observed_is_never_suggested(self, make: Callable[..., Sampler], type_name: str) -> None:
        known = make(type_name).suggest(25)
        sampler = make(type_name)

        sampler.observe(known, latency_ms=[1.0] * len(known))

        assert set(known).isdisjoint(sampler.suggest(40))

    def test_what_cannot_be_measured_is_not_suggested_again(self, make: Callable[..., Sampler]) -> None:
        known = make("conv").suggest(10)
        sampler = make("conv")

        sampler.observe(known, latency_ms=[float("nan")] * len(known))

        assert set(known).isdisjoint(sampler.suggest(40))

    @every_type
    def test_a_seed_gives_the_same_twice_and_another_something_else(self, make: Callable[..., Sampler], type_name: str) -> None:
        first, again, other = (make(type_name, seed).suggest(20) for seed in (0, 0, 1))

        assert first == again
        assert set(first) != set(other)

    @every_type
    def test_errors_lead_to_valid_suggestions_too(self, make: Callable[..., Sampler], type_name: str) -> None:
        space, sampler = space_of(type_name), make(type_name)
        known = sampler.suggest(20)
        sampler.observe(known, latency_ms=[1.0] * len(known))

        sampler.observe(known, errors=[index / len(known) for index in range(len(known))])
        found = sampler.suggest(30)

        assert found
        assert set(known).isdisjoint(found)
        assert len(set(found)) == len(found)
        assert [row for row in found if not space.contains(row)] == []

    @every_type
    def test_its_state_is_its_seed_and_what_it_was_told(self, make: Callable[..., Sampler], type_name: str) -> None:
        known = make(type_name).suggest(30)
        errors = [0.5 if index % 3 else 0.01 for index in range(len(known))]
        suggestions = []
        for _ in range(2):
            sampler = make(type_name)
            sampler.observe(known, latency_ms=[1.0] * len(known))
            sampler.observe(known, errors=errors)
            suggestions.append(sampler.suggest(20))

        assert suggestions[0] == suggestions[1]

    def test_errors_that_are_not_known_are_passed_over(self, make: Callable[..., Sampler]) -> None:
        sampler = make("conv")
        known = sampler.suggest(5)

        sampler.observe(known, errors=[float("nan")] * len(known))

        assert sampler.suggest(10)

    def test_an_exhausted_space_ends_the_suggestions(self) -> None:
        space = small_space()
        sampler = SAMPLERS.get(self.sampler_name)(space, {(1, 8, 0, 0, 0): 2, (1, 11, 0, 0, 0): 1}, 0)

        found: list[Configuration] = []
        for _ in range(20):
            more = sampler.suggest(10)
            if not more:
                break
            found += more

        assert sampler.suggest(10) == []
        assert len(set(found)) == len(found) >= 4

    def test_a_type_that_no_network_has_can_be_drawn(self) -> None:
        if not self.learns_from_none:
            pytest.skip(f"{self.sampler_name} learns from networks alone")
        space = space_of("conv_transpose")

        found = SAMPLERS.get(self.sampler_name)(space, {}, 0).suggest(10)

        assert len(found) == 10
        assert all(space.contains(row) for row in found)
