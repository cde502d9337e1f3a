"""LitePred's sampler (§4.2): a variational autoencoder learns how the dimensions of kernels in networks go together, and
draws new ones from that distribution.

It learns from the kernels of networks in logarithms of their dimensions, each between 0 and 1. A decoded vector is rounded to
the nearest valid kernel: dimensions on the grid (HW, K, S) to values that networks have, channels to multiples of 8, 4 or 2 as
the nearest kernel of networks has them, since an odd width costs more. Where a space is exhausted, or networks have too few
kernels of a type, the prior sampler goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from latcast.errors import BundleError
from latcast.folders import cache_folder, made, replacing
from latcast.kernels.kernel import Configuration
from latcast.perceptron import Adam, Layers, forward
from latcast.reading import parse_tensors, read_bytes
from latcast.samplers.sampler import LearningSampler, draw_distinct, grain, on_grain
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts

LATENT, HIDDEN, LAYERS = 16, 96, 5
"""Sizes of the networks; the paper has 128 and 256, but kernels have at most a dozen dimensions and the budget is minutes."""

BATCH = 28
"""Kernels of a gradient step; the paper has 16, and many more steps."""

LEARNING_RATE = 3e-3
"""Rate of the first step; the paper has 1e-3 (§6), for larger networks and more steps."""

WARM_UP = 0.6
"""Part of the steps over which the divergence's weight rises to 1, so that latent dimensions do not collapse at the start."""

LOG_VARIANCES = (-12.0, 6.0)
"""Limits of the encoder's logarithms of variances, so that no step overflows."""

STEPS_PER_ROW, LEAST_STEPS, MOST_STEPS = 10, 400, 2_000
"""Gradient steps; the paper makes 250,000, which is hours of one core."""

DECODER_NOISE = 0.02
"""Standard deviation of the decoder's noise, of a dimension's range; it weighs the error against the divergence."""


@dataclass(frozen=True)
class Decoder:
    """A map from latent vectors to kernels in normalised dimensions.

    Attributes:
        weights: (inputs, outputs) of each layer.
        biases: (outputs,) of each layer.
        means, deviations: (kernels, LATENT) the normal distribution that the encoder gives for each kernel that was learned.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    means: np.ndarray
    deviations: np.ndarray

    def draw(self, count: int, importance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return new kernels, (count, dimensions), each near a learned one, which are chosen with these probabilities."""
        like = rng.choice(len(self.means), size=count, p=importance / importance.sum())
        return self.decode(self.means[like] + self.deviations[like] * rng.standard_normal((count, LATENT)))

    def decode(self, latent: np.ndarray) -> np.ndarray:
        """Decode (kernels, LATENT) to (kernels, dimensions), each between 0 and 1."""
        return _logistic(forward(self.weights, self.biases, latent)[-1])

    def save(self, path: Path) -> None:
        """Write a checkpoint (safetensors)."""
        from safetensors.numpy import save

        arrays = {f"weight_{index}": weight for index, weight in enumerate(self.weights)}
        arrays |= {f"bias_{index}": bias for index, bias in enumerate(self.biases)}
        arrays |= {"means": self.means, "deviations": self.deviations}
        made(path.parent)
        with replacing(path) as draft:
            draft.write_bytes(save(arrays))

    @classmethod
    def load(cls, path: Path) -> Decoder:
        """Read a checkpoint.

        Raises:
            BundleError: The file is damaged, or of other layers.
        """
        try:
            arrays, _ = parse_tensors(read_bytes(path, error=BundleError), error=BundleError)
            weights = tuple(arrays[f"weight_{index}"] for index in range(LAYERS))
            biases = tuple(arrays[f"bias_{index}"] for index in range(LAYERS))
            means, deviations = arrays["means"], arrays["deviations"]
        except (BundleError, KeyError) as problem:
            raise BundleError(
                f"{path}: found no decoder of {LAYERS} layers ({problem}); delete it, it is trained again"
            ) from problem
        return cls(weights, biases, means, deviations)


def trained_decoder(name: str, rows: np.ndarray, importance: np.ndarray, seed: int) -> Decoder:
    """Return :func:`train_decoder`'s result from this process's memory, from the user's cache, or trained now."""
    data = np.ascontiguousarray(np.column_stack([rows, importance]), dtype=np.float64)
    return _decoder(name, data.shape, data.tobytes(), seed)


@lru_cache(maxsize=64)
def _decoder(name: str, shape: tuple[int, int], data: bytes, seed: int) -> Decoder:
    plan = (3, name, shape, seed, LATENT, HIDDEN, LEARNING_RATE, STEPS_PER_ROW, MOST_STEPS, BATCH, WARM_UP, DECODER_NOISE)
    key = hashlib.sha256(repr(plan).encode() + data).hexdigest()[:16]
    path = cache_folder() / "vae" / f"{name}-{key}.safetensors"
    if path.is_file():
        return Decoder.load(path)
    table = np.frombuffer(data).reshape(shape)
    decoder = train_decoder(table[:, :-1], table[:, -1], seed)
    decoder.save(path)
    return decoder


def kl_divergence(mean: np.ndarray, log_variance: np.ndarray) -> float:
    """Return the divergence of N(mean, exp(log_variance)), (batch, latent) each, from N(0, I); averaged over the batch."""
    return float(-0.5 * (1 + log_variance - mean**2 - np.exp(log_variance)).sum(axis=1).mean())


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))


class _Autoencoder:
    """Encoder and decoder (Fig. 4), and the gradient of their loss."""

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        hidden = [HIDDEN] * (LAYERS - 1)
        encoder, decoder = [width, *hidden, 2 * LATENT], [LATENT, *hidden, width]
        border = Layers.count(encoder)
        self.parameters = np.empty(border + Layers.count(decoder), dtype=np.float32)
        self.gradient = np.empty_like(self.parameters)
        self.encoder = Layers(encoder, self.parameters[:border], self.gradient[:border])
        self.decoder = Layers(decoder, self.parameters[border:], self.gradient[border:])
        for part in (self.encoder, self.decoder):
            # As torch does, by a layer's number of inputs.
            part.start(rng, lambda weight: len(weight) ** -0.5)

    def encode(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encode (kernels, dimensions) to means and logarithms of variances, (kernels, LATENT) each."""
        mean, log_variance = np.split(self.encoder.forward(x), 2, axis=1)
        return mean, np.clip(log_variance, *LOG_VARIANCES)

    def loss(self, x: np.ndarray, noise: np.ndarray, warmth: float) -> float:
        """Return the loss on a batch, (batch, dimensions), with noise (batch, LATENT); its gradient is in :attr:`gradient`."""
        mean, log_variance = self.encode(x)
        deviation = np.exp(0.5 * log_variance)
        decoded = _logistic(self.decoder.forward(mean + deviation * noise))
        error = decoded - x
        by_latent = self.decoder.backward(error * decoded * (1 - decoded) / (DECODER_NOISE**2 * len(x)))
        by_mean = by_latent + warmth / len(x) * mean
        by_log_variance = 0.5 * (by_latent * noise * deviation + warmth / len(x) * (deviation**2 - 1))
        low, high = LOG_VARIANCES
        by_log_variance *= (log_variance > low) & (log_variance < high)
        self.encoder.backward(np.concatenate([by_mean, by_log_variance], axis=1))
        squared = float((error**2).sum(axis=1).mean())
        return squared / (2 * DECODER_NOISE**2) + warmth * kl_divergence(mean, log_variance)


def train_decoder(rows: np.ndarray, importance: np.ndarray, seed: int) -> Decoder:
    """Train encoder and decoder and keep the decoder, with the encoder's distribution of each kernel.

    The loss is the evidence bound of Kingma and Welling: half the squared error over the variance of the decoder's noise, and the
    divergence of the encoder's normal distribution from the standard one,

        KL = -1/2 Σ (1 + log σ² - μ² - σ²),

    summed over the latent dimensions and averaged over the batch. (The released code has the 1/2 before the 1 alone, which trains
    towards N(0, ½ I).) New kernels are decoded from the encoder's distributions of known ones, not from all of N(0, I): a few
    thousand kernels leave much of that ball empty.

    Args:
        rows: (kernels, dimensions), each between 0 and 1.
        importance: (kernels,) probability of each in a batch.
    """
    steps = int(np.clip(STEPS_PER_ROW * len(rows), LEAST_STEPS, MOST_STEPS))
    rng = np.random.default_rng(seed)
    batches = rng.choice(len(rows), size=(steps, BATCH), p=importance / importance.sum())
    inputs = np.asarray(rows, dtype=np.float32)
    model = _Autoencoder(inputs.shape[1], rng)
    adam = Adam(model.parameters, model.gradient)
    for step, batch in enumerate(batches, start=1):
        noise = rng.standard_normal((BATCH, LATENT), dtype=np.float32)
        model.loss(inputs[batch], noise, min(1.0, step / (WARM_UP * steps)))
        # The rate falls along a cosine.
        adam.step(0.5 * LEARNING_RATE * (1 + np.cos(np.pi * (step - 1) / steps)))
    mean, log_variance = model.encode(inputs)
    return Decoder(
        tuple(weight.astype(np.float64) for weight in model.decoder.weights),
        tuple(bias.astype(np.float64) for bias in model.decoder.biases),
        mean.astype(np.float64),
        np.exp(0.5 * log_variance).astype(np.float64),
    )


FEWEST_ROWS = 10
"""Least kernels in networks to learn from."""

FEWEST_WANTED = 20
"""Kernels of a type, known and asked for, from which on a decoder is trained: training takes a second, measuring them more."""

DRAWN_AT_ONCE = 256


class VaeSampler(LearningSampler):
    """A sampler that draws kernels as a variational autoencoder decodes them."""

    def __init__(self, space: KernelSpace, listed: ConfigurationCounts, seed: int) -> None:
        super().__init__(space, listed, seed)
        self._rng = np.random.default_rng([seed, *space.name.encode()])
        self._drawn: list[np.ndarray] = []
        self._tried: set[tuple[int, ...]] = set()
        self._rows = [row for row in listed if space.within_limits(row)]
        self._counts = np.array([listed[row] for row in self._rows], dtype=np.float64)

    def _learned(self, count: int) -> list[Configuration]:
        # By the known and the asked kernels alone, so that a new sampler with the same observations goes on as this one would.
        enough = len(self._seen) + count >= FEWEST_WANTED and len(self._rows) >= FEWEST_ROWS and self._names
        return draw_distinct(self._draw, count, self._seen) if enough else []

    @cached_property
    def _decoder(self) -> Decoder:
        return trained_decoder(self._space.name, self._normalised, self._importance, self._seed)

    @cached_property
    def _dimensions(self) -> list[dict[str, int]]:
        return [self._space.dimensions(row) for row in self._rows]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The dimensions in which kernels of networks differ."""
        first = self._dimensions[0] if self._dimensions else {}
        return tuple(name for name in first if any(found[name] != first[name] for found in self._dimensions))

    @cached_property
    def _logs(self) -> np.ndarray:
        """(kernels, dimensions)."""
        return np.log2(1.0 + np.array([[found[name] for name in self._names] for found in self._dimensions]))

    @cached_property
    def _normalised(self) -> np.ndarray:
        """(kernels, dimensions), each from 0 to 1."""
        low = self._logs.min(axis=0)
        return np.asarray((self._logs - low) / (self._logs.max(axis=0) - low))

    @cached_property
    def _importance(self) -> np.ndarray:
        """Share of each kernel in training, (kernels,): half by how often networks have it, half by what it computes and moves,
        because the few large kernels make up much of a network's latency (§4.2)."""
        kind = self._space.kernel_type
        q = kind.quantities(kind.columns(np.array(self._rows)))
        flops, moved = q.flops, q.input_elements + q.output_elements + q.weight_elements
        cost = self._counts * (flops / max(flops.sum(), 1.0) + moved / max(moved.sum(), 1.0))
        frequency = self._counts / self._counts.sum()
        return np.asarray(0.5 * frequency + 0.5 * cost / cost.sum())

    def _draw(self) -> Configuration | None:
        """Return the valid kernel nearest to a decoded vector; None where there is none near."""
        if not self._drawn:
            self._drawn = list(self._decoder.draw(DRAWN_AT_ONCE, self._importance, self._rng))
        decoded = self._drawn.pop()  # (dimensions,) from 0 to 1
        low = self._logs.min(axis=0)
        values = 2.0 ** (low + decoded * (self._logs.max(axis=0) - low)) - 1.0
        wanted = dict(zip(self._names, values.tolist(), strict=True))
        free = set(self._spans)
        place = [index for index, name in enumerate(self._names) if name not in free]
        # All dimensions but channels come from the nearest kernel of networks: windows and their padding go together.
        distance = ((self._normalised[:, place] - decoded[place]) ** 2).sum(axis=1)
        own = ((self._normalised - decoded) ** 2).sum(axis=1)
        nearest = int(np.lexsort((own, distance))[0])
        channels = {name: on_grain(wanted[name], grain(self._dimensions[nearest][name])) for name in self._spans}
        tried = (int(np.flatnonzero(distance == distance[nearest])[0]), *channels.values())
        if tried in self._tried:
            return None  # building it once more takes a hundred times as long as drawing
        self._tried.add(tried)
        return self._space.moved(self._rows[nearest], channels)

    @cached_property
    def _spans(self) -> Mapping[str, int]:
        """Channels in which kernels of networks differ, and their places."""
        spans = self._space.spans(self._rows[0])
        return {name: self._names.index(name) for name in spans if name in self._names}
