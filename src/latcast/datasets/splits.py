"""Which subjects a predictor may learn from, and on which it is judged: by network, by lineage, by device.

Random networks flatter: two variants of one family are nearly the same network, and two families that share their blocks are
nearly one family. Whole lineages held out say how well an unseen architecture is predicted, whole devices an
unseen phone. A split is drawn from its seed and the names alone, so the same list in another order is split alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from latcast.errors import DatasetError
from latcast.records import Platform, Reference
from latcast.spaces.published_segments import NAME as SEGMENTS
from latcast.spaces.pytorchcv import NAME as PYTORCHCV
from latcast.spaces.pytorchcv import family_of as family_by_name

TEST_SHARE = 0.3
"""Of the subjects."""

SAME_DEVICE: Mapping[str, str] = MappingProxyType({"onefusion": "mi8se"})
"""Devices that are held out together with another one: both have a Snapdragon 710 (Li et al., Table 1)."""

SPACES_OF_NAMES = frozenset({PYTORCHCV, "aihub", "huggingface", "ncnn_benchmark", "timm", "torchvision"})
"""Collections of networks of many families, told apart by their names."""

LINEAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # A sum around a basic block or a narrowing bottleneck. Where the activation stands, squeeze-and-excitation, attention on
        # channels, groups in the middle convolution, and which of the two convolutions is 3x3 (BagNet) do not make it another.
        "residual": (
            "resnet", "preresnet", "seresnet", "se_resnet", "sepreresnet", "resnext", "seresnext", "senet", "bagnet", "wrn",
            "ofa_resnet", "airnet", "airnext", "bam", "cbam", "diaresnet", "diapreresnet", "drnc", "drnd", "fastseresnet",
            "ibn", "ibnb", "isqrtcovresnet", "octresnet", "pyramidnet", "resattnet", "resdropresnet", "resnesta",
            "resnestabc", "rir", "ror", "scnet", "scneta", "shakedropresnet", "shakeshakeresnet", "sharesnet", "sknet",
            "tresnet", "bisenet", "fcn", "ffnet", "wideresnet",
        ),
        # 1x1 that widens, depthwise, 1x1 that narrows: MobileNetV2's block, whatever its kernel sizes, gates and activations;
        # MobileViT is made of it between its blocks of attention.
        "inverted residual": (
            "mobilenetv2", "mobilenet_v2", "mobilenetv3", "mobilenet_v3", "mnasnet", "proxylessnas", "spnasnet", "fbnet",
            "efficientnet", "mixnet", "igcv", "mobilevit", "mobilevitv", "ofa_mobilenet_v3", "ofa_mobilenet_v3_w12",
            "ofa_proxylessnas",
            "bignas", "fbnet_v3", "deeplabv",
        ),
        # Depthwise and 1x1 in a chain, without a sum.
        "separable": ("mobilenet", "mobilenet_v1", "fdmobilenet", "posenet", "yamnet"),
        # Fire: 1x1 that squeezes, 1x1 and 3x3 beside each other, with or without a sum around it.
        "fire": ("squeezenet", "squeezeresnet"),
        # A chain of convolutions and pools before large linear layers; DiracNet's sums are in its weights.
        "plain": ("alexnet", "alexnetb", "zfnet", "zfnetb", "vgg", "bn", "diracnet"),
        # Every layer reads all before it.
        "dense": ("densenet", "condensenet", "peleenet", "sparsenet", "xdensenet"),
        # Branches of several kernel sizes, concatenated.
        "inception": ("googlenet", "bninception", "inceptionv", "inceptionresnetv", "polynet"),
        # A 1x1 convolution in groups or of a part of the channels, and a shuffle.
        "shuffle": ("shufflenet", "shufflenetv", "shufflenet_v2", "menet"),
        # Attention of all tokens to all, and a perceptron. Swin's works in windows that are cut out and shifted, and is another.
        "encoder": (
            "vit", "vision", "deit", "beit", "dinov", "autoformer", "autoformer_small", "autoformer_base", "albert", "bert",
            "depth", "electra", "nomic", "opus", "video", "whisper",
        ),
        "swin": ("swin", "swinv"),
        # Attention to keys and values of a smaller map, stage by stage.
        "reduced attention": ("mit", "pvt"),
        # A perceptron behind an average pool, attention if any in the last stage alone.
        "metaformer": ("poolformer", "efficientformer"),
        # Cells that were searched for, of separable and dilated convolutions.
        "cell": ("darts", "nasnet", "pnasnet"),
    }
)  # fmt: skip
"""Lineage to the families (:func:`family_of`) whose networks share its block. Other families are lineages of their own: RegNet,
whose bottleneck neither narrows nor widens, GhostNet, SqueezeNext, HarDNet, HRNet, DLA, NAS-Bench-201..."""

_LINEAGE_OF: Mapping[str, str] = MappingProxyType({family: name for name, families in LINEAGES.items() for family in families})


@dataclass(frozen=True)
class Split:
    """Names to train on and names to test on, none in both, each in sorted order."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def family_of(reference: Reference) -> str:
    """The family of a network: its space, or for collections that which its name begins with; a segment's is its network's."""
    if reference.space == SEGMENTS:
        return family_by_name(str(reference.parameters["network"]).partition("/")[2])
    if reference.space in SPACES_OF_NAMES:
        return family_by_name(str(reference.parameters.get("name", reference.name)))
    return reference.space


def lineage_of(reference: Reference) -> str:
    """What a network is held out with: all networks of families that share its blocks.

    >>> lineage_of(Reference("se_resnet")), lineage_of(Reference("pytorchcv", {"name": "resnext26_32x4d"}))
    ('residual', 'residual')
    """
    family = family_of(reference)
    return _LINEAGE_OF.get(family, family)


def device_of(platform: Platform | str) -> str:
    """The device that a platform is held out with."""
    device = (Platform.parse(platform) if isinstance(platform, str) else platform).device
    return SAME_DEVICE.get(device, device)


def by_network(networks: Iterable[str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Random networks held out.

    Args:
        networks: Names or keys; repeated ones count once.
        seed: Same seed, same split.
        test_share: Part to test on; rounded, and at least one on each side.

    Raises:
        DatasetError: Fewer than two networks, or a share outside 0 to 1.
    """
    names = sorted(set(networks))
    count = _test_count(len(names), test_share, "networks")
    shuffled = list(names)
    Random(f"by_network/{seed}").shuffle(shuffled)
    return _split(names, frozenset(shuffled[:count]))


def by_group(group_of: Mapping[str, str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Whole groups held out, drawn one by one until at least the share of the members is.

    Args:
        group_of: Name or key of each network to its lineage; or of anything else to what it is held out with.
        seed: Same seed, same split.
        test_share: Part of the members to test on; more where the last group drawn is large, and never all groups.

    Raises:
        DatasetError: Fewer than two groups, or a share outside 0 to 1.
    """
    groups = sorted(set(group_of.values()))
    if len(groups) < 2:
        raise DatasetError(f"found {len(groups)} groups ({', '.join(groups)}); holding groups out takes at least 2")
    count = _test_count(len(group_of), test_share, "members")
    shuffled = list(groups)
    Random(f"by_family/{seed}").shuffle(shuffled)  # the text is part of the seed: another one would draw other splits
    held_out: set[str] = set()
    test: set[str] = set()
    for group in shuffled[:-1]:
        if len(test) >= count:
            break
        held_out.add(group)
        test = {name for name, its_group in group_of.items() if its_group in held_out}
    return _split(sorted(group_of), frozenset(test))


def by_device(platforms: Iterable[str], seed: int) -> Split:
    """Random devices held out, each with all its platforms: all core sets, precisions and runtimes.

    Args:
        platforms: Platform ids.
        seed: Same seed, same split.

    Raises:
        DatasetError: Fewer than two devices.
    """
    names = sorted(set(platforms))
    devices = by_network(map(device_of, names), seed)
    held_out = frozenset(devices.test)
    return _split(names, frozenset(name for name in names if device_of(name) in held_out))


def _split(names: Sequence[str], test: frozenset[str]) -> Split:
    return Split(tuple(name for name in names if name not in test), tuple(name for name in names if name in test))


def _test_count(count: int, test_share: float, what: str) -> int:
    if not 0 < test_share < 1:
        raise DatasetError(f"the share to test on is {test_share}; expected a number between 0 and 1")
    if count < 2:
        raise DatasetError(f"found {count} {what}; splitting takes at least 2")
    return min(max(1, round(test_share * count)), count - 1)
