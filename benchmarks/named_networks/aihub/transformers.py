"""Transformers: those of the package transformers by their configuration, and encoders and decoders as they are deployed.

A decoder is one step of it: keys and values of earlier positions, and those of what it attends to, are inputs. Sources: Whisper
(arXiv 2212.04356), Marian (1804.00344), and quic/ai-hub-models for what of them is an input. Tokens arrive as floats and are
cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from latcast.graph.ir import Graph

EAGER = {"attn_implementation": "eager"}


class Named(nn.Module):
    """A model of transformers whose inputs are given in order.

    Args:
        model: The model.
        names: Of its inputs.
        answer: Takes what is wanted from what it returns.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], answer: Callable[[Any], Any] = lambda found: found[0]) -> None:
        super().__init__()
        self.model, self.names, self.answer = model, tuple(names), answer

    def forward(self, *inputs: Tensor) -> Any:
        given = {name: x.long() if name == "input_ids" else x for name, x in zip(self.names, inputs, strict=True)}
        return self.answer(self.model(**given, return_dict=False))


def _masked(model: nn.Module) -> Named:
    """The token in the place of a mask."""
    return Named(model, ("input_ids", "attention_mask"), lambda found: found[0][:, 5].argmax(-1))


def bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return _masked(BertForMaskedLM(BertConfig(**EAGER)))


def albert() -> nn.Module:
    from transformers import AlbertConfig, AlbertForMaskedLM

    sizes = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    return _masked(AlbertForMaskedLM(AlbertConfig(**sizes, **EAGER)))


def electra() -> nn.Module:
    from transformers import ElectraConfig, ElectraForPreTraining

    sizes = {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    return Named(ElectraForPreTraining(ElectraConfig(**sizes, **EAGER)), ("input_ids", "attention_mask"))


def nomic() -> nn.Module:
    from transformers import NomicBertConfig, NomicBertModel

    return Named(NomicBertModel(NomicBertConfig(**EAGER)), ("input_ids", "attention_mask"), lambda found: found[0].mean(1))


def beit() -> nn.Module:
    from transformers import BeitConfig, BeitForImageClassification

    configuration = BeitConfig(use_relative_position_bias=True, use_mask_token=False, num_labels=1000, **EAGER)
    return Named(BeitForImageClassification(configuration), ("pixel_values",))


def depth_anything(levels: Sequence[int]) -> nn.Module:
    """Args: levels: layers of the encoder that the head reads."""
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    small = {"hidden_size": 384, "num_attention_heads": 6, "image_size": 518, "patch_size": 14}
    body = Dinov2Config(**small, out_indices=list(levels), reshape_hidden_states=False, **EAGER)
    sizes = {"reassemble_hidden_size": 384, "neck_hidden_sizes": [48, 96, 192, 384], "fusion_hidden_size": 64}
    return Named(DepthAnythingForDepthEstimation(DepthAnythingConfig(backbone_config=body, **sizes)), ("pixel_values",))


def detr(depths: Sequence[int], *, conditional: bool = False) -> nn.Module:
    import transformers

    name = "ConditionalDetr" if conditional else "Detr"
    body = transformers.ResNetConfig(depths=list(depths), out_features=["stage4"])
    configuration = getattr(transformers, f"{name}Config")(
        use_timm_backbone=False, backbone=None, backbone_config=body, use_pretrained_backbone=False, num_labels=91, **EAGER
    )
    model = getattr(transformers, f"{name}ForObjectDetection")(configuration)
    return Named(model, ("pixel_values",), lambda found: (found[0].softmax(-1)[..., :-1].max(-1), found[1]))


def mobile_vit() -> nn.Module:
    from transformers import MobileViTConfig, MobileViTForImageClassification

    return Named(MobileViTForImageClassification(MobileViTConfig(image_size=256, num_labels=1000)), ("pixel_values",))


def video_mae() -> nn.Module:
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification

    configuration = VideoMAEConfig(num_labels=400, use_mean_pooling=True, **EAGER)
    return Named(VideoMAEForVideoClassification(configuration), ("pixel_values",))


def wavlm() -> nn.Module:
    from transformers import WavLMConfig, WavLMForCTC

    return Named(WavLMForCTC(WavLMConfig(vocab_size=31)), ("input_values",))


def clip_text(**sizes: Any) -> nn.Module:
    """The text encoder of a Stable Diffusion."""
    from transformers import CLIPTextConfig, CLIPTextModel

    return Named(CLIPTextModel(CLIPTextConfig(vocab_size=49408, max_position_embeddings=77, **sizes, **EAGER)), ("input_ids",))


class Denoiser(nn.Module):
    """The U-Net of a Stable Diffusion, by its configuration in diffusers."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__()
        from diffusers import UNet2DConditionModel
        from diffusers.models.attention_processor import AttnProcessor

        self.model = UNet2DConditionModel(sample_size=64, block_out_channels=(320, 640, 1280, 1280), **sizes)
        self.model.set_attn_processor(AttnProcessor())

    def forward(self, latent: Tensor, time: Tensor, text: Tensor) -> Tensor:
        return self.model(latent, time, text, return_dict=False)[0]


def denoiser_graph(*, cross_attention_dim: int, **sizes: Any) -> Graph:
    """The graph of a U-Net, which is too large for the exporter of traces; the newer one takes a quarter of an hour."""
    from latcast.graph.importers import from_torch

    module = Denoiser(cross_attention_dim=cross_attention_dim, **sizes)
    return from_torch(module, (torch.zeros(1, 4, 64, 64), torch.zeros(1), torch.zeros(1, 77, cross_attention_dim)))


class LatentDecoder(nn.Module):
    """What makes an image of a Stable Diffusion's latent values, by its configuration in diffusers."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers import AutoencoderKL
        from diffusers.models.attention_processor import AttnProcessor

        down, up = ("DownEncoderBlock2D",) * 4, ("UpDecoderBlock2D",) * 4
        widths = (128, 256, 512, 512)
        whole = AutoencoderKL(
            block_out_channels=widths, layers_per_block=2, latent_channels=4, down_block_types=down, up_block_types=up
        )
        whole.set_attn_processor(AttnProcessor())
        self.first, self.decoder = whole.post_quant_conv, whole.decoder

    def forward(self, latent: Tensor) -> Tensor:
        return self.decoder(self.first(latent / 0.18215)).div(2).add(0.5).clamp(0, 1)


Cache = tuple[Tensor, Tensor]


class Attention(nn.Module):
    """Attention to itself, with earlier keys and values in front, or to keys and values that are given."""

    def __init__(self, width: int, heads: int, *, given: bool = False, key_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        if not given:
            self.k, self.v = nn.Linear(width, width, bias=key_bias), nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(1, x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: Cache | None = None, given: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        q = self.split(self.q(x)) * (x.shape[-1] // self.heads) ** -0.5
        if given is not None:
            k, v = given
        else:
            k, v = self.split(self.k(x)), self.split(self.v(x))
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(2, 3)
        scores = scores if mask is None else scores + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, x.shape[1], -1)
        return self.leave(y), (k, v)


class Layer(nn.Module):
    """A layer of an encoder, or of a decoder; normalised in front of its parts, or behind them.

    Args:
        hidden: Width of the perceptron.
        decoder: Whether it attends to keys and values that are given, besides.
        first: Whether normalisation stands in front.
    """

    def __init__(
        self, width: int, heads: int, hidden: int, activation: type[nn.Module], *, decoder: bool, first: bool, key_bias: bool
    ) -> None:
        super().__init__()
        self.first = first
        self.attend = Attention(width, heads, key_bias=key_bias)
        self.other = Attention(width, heads, given=True, key_bias=key_bias) if decoder else None
        self.feed = nn.Sequential(nn.Linear(width, hidden), activation(), nn.Linear(hidden, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decoder else 2))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        past: Cache | None = None,
        given: Cache | None = None,
        other_mask: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        y, kept = self.attend(self.norms[0](x) if self.first else x, mask, past)
        x = x + y if self.first else self.norms[0](x + y)
        if self.other is not None:
            y, _ = self.other(self.norms[1](x) if self.first else x, other_mask, given=given)
            x = x + y if self.first else self.norms[1](x + y)
        last = self.norms[-1]
        return (x + self.feed(last(x)) if self.first else last(x + self.feed(x))), kept


class WhisperEncoder(nn.Module):
    """Thirty seconds of sound to the keys and values that the decoder's layers attend to."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.positions, self.norm = nn.Parameter(torch.zeros(1500, width)), nn.LayerNorm(width)
        kinds = {"decoder": False, "first": True, "key_bias": False}
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, nn.GELU, **kinds) for _ in range(layers))
        self.answers = nn.ModuleList(nn.Linear(width, width, bias=index % 2 == 1) for index in range(2 * layers))

    def forward(self, spectrogram: Tensor) -> tuple[Tensor, ...]:
        x = functional.gelu(self.second(functional.gelu(self.first(spectrogram)))).transpose(1, 2) + self.positions
        for layer in self.layers:
            x, _ = layer(x)
        x = self.norm(x)
        return tuple(answer(x).view(1, 1500, self.heads, -1).transpose(1, 2) for answer in self.answers)


class WhisperDecoder(nn.Module):
    """One token after 199 others."""

    def __init__(self, width: int, layers: int, heads: int, words: int = 51865) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(448, width)
        kinds = {"decoder": True, "first": True, "key_bias": False}
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, nn.GELU, **kinds) for _ in range(layers))
        self.norm, self.answer = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, token: Tensor, position: Tensor, mask: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        x, found, half = self.words(token.long()) + self.positions(position.long()), [], 2 * len(self.layers)
        for index, layer in enumerate(self.layers):
            own, other = (caches[start + 2 * index : start + 2 * index + 2] for start in (0, half))
            x, kept = layer(x, mask, own, other)
            found += [each[:, :, 1:] for each in kept]
        return (self.answer(self.norm(x)), *found)

    @staticmethod
    def shapes(width: int, layers: int, heads: int) -> list[tuple[int, ...]]:
        """Of the inputs."""
        own, other = (1, heads, 199, width // heads), (1, heads, 1500, width // heads)
        return [(1, 1), (1, 1), (1, 1, 1, 200), *[own] * 2 * layers, *[other] * 2 * layers]


class MarianEncoder(nn.Module):
    """256 tokens to the keys and values that the decoder's layers attend to."""

    def __init__(self, words: int, width: int = 512, layers: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.zeros(256, width))
        kinds = {"decoder": False, "first": False, "key_bias": True}
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, nn.SiLU, **kinds) for _ in range(layers))
        self.answers = nn.ModuleList(nn.Linear(width, width) for _ in range(2 * layers))
        self.heads, self.scale = heads, width**0.5

    def forward(self, tokens: Tensor, present: Tensor) -> tuple[Tensor, ...]:
        x, mask = self.words(tokens.long()) * self.scale + self.positions, ((1 - present) * -1e4)[:, None, None]
        for layer in self.layers:
            x, _ = layer(x, mask)
        return tuple(answer(x).view(1, 256, self.heads, -1).transpose(1, 2) for answer in self.answers)


class MarianDecoder(nn.Module):
    """One token after 255 others."""

    def __init__(self, words: int, width: int = 512, layers: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(256, width)
        kinds = {"decoder": True, "first": False, "key_bias": True}
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, nn.SiLU, **kinds) for _ in range(layers))
        self.answer, self.scale = nn.Linear(width, words), width**0.5

    def forward(self, token: Tensor, present: Tensor, position: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        x, found = self.words(token.long()) * self.scale + self.positions(position.long())[:, None], []
        mask = ((torch.arange(256) > position).float() * -1e4)[None, None, None]
        other_mask = ((1 - present) * -1e4)[:, None, None]
        for index, layer in enumerate(self.layers):
            own, other = caches[4 * index : 4 * index + 2], caches[4 * index + 2 : 4 * index + 4]
            x, kept = layer(x, mask, own, other, other_mask)
            found += kept
        return (self.answer(x), *found)

    @staticmethod
    def shapes() -> list[tuple[int, ...]]:
        """Of the inputs."""
        return [(1, 1), (1, 256), (1,), *[(1, 8, 255, 64), (1, 8, 255, 64), (1, 8, 256, 64), (1, 8, 256, 64)] * 6]
