"""LitePred's sampler against the contract, and what is its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.samplers import vae
from latcast.samplers.vae import LATENT, Decoder, VaeSampler, _Autoencoder, kl_divergence, train_decoder
from latcast.testing.contracts.kernels import SamplerContract, listed_in, space_of


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of its own, kept for all tests of this file, and short trainings."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATCAST_HOME", str(folder))
        patch.setattr(vae, "LEAST_STEPS", 30)
        patch.setattr(vae, "STEPS_PER_ROW", 1)
        patch.setattr(vae, "FEWEST_WANTED", 1)
        vae._decoder.cache_clear()
        yield folder
        vae._decoder.cache_clear()


class TestVae(SamplerContract):
    sampler_name = "vae"


def test_the_divergence_from_the_standard_normal_distribution_is_the_closed_form() -> None:
    # N(0, 1) is no distance away; N(1, 1) half a nat in each dimension; N(0, e) half of (e - 2).
    mean, log_variance = np.zeros((4, 3)), np.zeros((4, 3))

    assert kl_divergence(mean, log_variance) == pytest.approx(0.0)
    assert kl_divergence(mean + 1, log_variance) == pytest.approx(1.5)
    assert kl_divergence(mean, log_variance + 1) == pytest.approx(3 * (np.e - 2) / 2, rel=1e-5)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    model = _Autoencoder(3, rng)
    x = rng.random((8, 3), dtype=np.float32)
    noise = rng.standard_normal((8, LATENT), dtype=np.float32)
    model.loss(x, noise, 0.5)
    gradient = model.gradient.copy()
    way = gradient / np.linalg.norm(gradient)
    start = model.parameters.copy()

    def loss_at(distance: float) -> float:
        model.parameters[:] = start + np.float32(distance) * way
        return model.loss(x, noise, 0.5)

    # Along the gradient the loss rises by the gradient's length.
    assert (loss_at(1e-3) - loss_at(-1e-3)) / 2e-3 == pytest.approx(float(np.linalg.norm(gradient)), rel=0.02)
    for part in (model.encoder, model.decoder):
        for weight in (*part.weights, *part.biases):
            assert np.shares_memory(weight, model.parameters)


def test_no_decoder_is_trained_before_enough_kernels_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    train = vae.trained_decoder

    def noting(name: str, rows: np.ndarray, importance: np.ndarray, seed: int) -> Decoder:
        trained.append(name)
        return train(name, rows, importance, seed)

    monkeypatch.setattr(vae, "trained_decoder", noting)
    monkeypatch.setattr(vae, "FEWEST_WANTED", 20)
    space = space_of("conv")
    sampler = VaeSampler(space, listed_in(space), 11)

    first = sampler.suggest(12)
    assert not trained
    second = sampler.suggest(12)

    assert trained == ["conv"]
    assert len({*first, *second}) == 24


def test_draws_are_spread_as_the_learned_kernels() -> None:
    # Two clusters whose dimensions go together: (0.1, 0.9) or (0.9, 0.1), never (0.1, 0.1) or (0.9, 0.9).
    rng = np.random.default_rng(0)
    centres = np.array([[0.1, 0.9], [0.9, 0.1]])[np.arange(200) % 2]
    rows = np.clip(centres + 0.02 * rng.standard_normal((200, 2)), 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vae, "LEAST_STEPS", 400)
        decoder = train_decoder(rows, np.full(200, 1 / 200), seed=0)

    drawn = decoder.draw(1000, np.full(200, 1 / 200), np.random.default_rng(1))

    near = [np.mean(np.abs(drawn - centre).max(axis=1) < 0.2) for centre in ([0.1, 0.9], [0.9, 0.1], [0.1, 0.1], [0.9, 0.9])]
    assert min(near[:2]) > 0.2
    assert max(near[2:]) < 0.05


def test_draws_resemble_the_kernels_with_more_weight() -> None:
    rows = np.array([[0.1, 0.9], [0.9, 0.1]])[np.arange(100) % 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vae, "LEAST_STEPS", 300)
        decoder = train_decoder(rows, np.full(100, 1 / 100), seed=0)

    drawn = decoder.draw(1000, np.where(np.arange(100) % 2, 0.0, 1.0), np.random.default_rng(1))

    assert np.mean(drawn[:, 0] < drawn[:, 1]) > 0.95


def test_channels_are_multiples_of_8_where_those_of_networks_are() -> None:
    space = space_of("conv")
    listed = {}
    for row in listed_in(space):
        aligned = space.moved(row, {name: max(value // 8, 1) * 8 for name, value in space.spans(row).items()})
        if aligned is not None:
            listed[aligned] = 1

    suggested = VaeSampler(space, listed, 3).suggest(20)

    assert len(suggested) == 20
    assert all(value % 8 == 0 for row in suggested for value in space.spans(row).values())


def test_a_large_kernel_is_seen_more_often_than_its_frequency() -> None:
    space = space_of("conv")
    rows = sorted(listed_in(space))
    sampler = VaeSampler(space, dict.fromkeys(rows, 1), 0)
    kind = space.kernel_type
    flops = kind.quantities(kind.columns(np.array(sampler._rows))).flops

    assert sampler._importance.sum() == pytest.approx(1.0)
    # All are equally frequent: a thirtieth each, were it not for what they compute and move.
    assert sampler._importance[np.argmax(flops)] > 1.15 / len(rows) > 0.85 / len(rows) > sampler._importance[np.argmin(flops)]
    assert sampler._importance.min() >= 0.5 / len(rows)


def test_a_decoder_is_trained_once_and_then_read_from_its_checkpoint(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of("conv")
    first = VaeSampler(space, listed_in(space), 7).suggest(10)
    monkeypatch.setattr(vae, "train_decoder", None)
    vae._decoder.cache_clear()

    again = VaeSampler(space, listed_in(space), 7).suggest(10)

    assert again == first
    assert list((cache / "cache" / "vae").glob("conv-*.safetensors"))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "conv-0.safetensors").write_bytes(b"no tensors")

    with pytest.raises(BundleError, match=r"conv-0.safetensors: found no decoder of 5 layers .* delete it"):
        Decoder.load(tmp_path / "conv-0.safetensors")
