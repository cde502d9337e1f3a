"""The table of chips and devices: its facts hold together, texts mean what people mean by them, and nothing by accident."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path

import pytest

from latcast.chips.chip_names import chip_of, facts, find, nearest, silicon
from latcast.chips.chip_table import chips, devices, spellings
from latcast.chips.name_matching import is_telling, joined
from latcast.errors import LatcastError

DATA = json.loads(resources.files("latcast.chips").joinpath("chips.json").read_text(encoding="utf-8"))

FEATURES = set(
    "neon helium fp16 dotprod i8mm bf16 sve sve2 sme sse avx avx2 avx512 vnni amx rvv msa lsx lasx".split()  # noqa: SIM905
)
KEYS = {
    "cores": {"design": str, "in_order": bool, "simd_bits": int, "fma_bits": int, "features": list},
    "chips": {
        "name": str, "vendor": str, "aliases": list, "year": int, "process_nm": int, "cpu": list, "memory": str,
        "bandwidth_gb_s": (int, float), "gpu": str, "gpu_cores": int, "gpu_mhz": int, "gpu_gflops": int, "npu": str,
        "npu_tops": (int, float), "npu_cores": int, "die": str, "ram_gb": list, "source": str,
    },
    "devices": {"aliases": list, "chips": list, "year": int, "ram_gb": list, "source": str},
    "gpus": {"family": str, "fma_per_core": int},
}  # fmt: skip
NEEDED = {"cores": set(), "chips": {"name", "vendor", "source"}, "devices": {"chips", "source"}, "gpus": {"family"}}


# The data file


@pytest.mark.parametrize("part", KEYS)
def test_an_entry_has_the_keys_that_are_needed_and_no_unknown_ones_each_of_its_type(part: str) -> None:
    for name, entry in DATA[part].items():
        assert NEEDED[part] <= set(entry) <= set(KEYS[part]), name
        for key, value in entry.items():
            assert isinstance(value, KEYS[part][key]), (name, key)


@pytest.mark.parametrize("part", ["cores", "gpus", "npus", "chips", "devices"])
def test_entries_are_sorted_a_line_each(part: str) -> None:
    text = resources.files("latcast.chips").joinpath("chips.json").read_text(encoding="utf-8").splitlines()

    assert list(DATA[part]) == sorted(DATA[part])
    begin = text.index(f'"{part}": {{')
    assert [json.loads("{" + line.rstrip(",") + "}") for line in text[begin + 1 : begin + 1 + len(DATA[part])]] == [
        {name: entry} for name, entry in DATA[part].items()
    ]


def test_there_are_hundreds_of_chips_and_devices_as_the_documentation_says() -> None:
    documented = Path(__file__).resolve().parents[2] / "docs" / "commands.md"

    assert len(chips()) >= 300
    assert len(devices()) >= 300
    assert f" {len(chips())} chips and {len(devices())} devices " in documented.read_text(encoding="utf-8")


def test_names_in_an_entry_are_in_the_file() -> None:
    known = chips()
    assert {core["design"] for core in DATA["cores"].values() if "design" in core} <= set(DATA["cores"])
    assert {feature for core in DATA["cores"].values() for feature in core.get("features", ())} <= FEATURES
    assert {core for chip in DATA["chips"].values() for _, core, _ in chip.get("cpu", ())} <= set(DATA["cores"])
    assert {chip["gpu"] for chip in DATA["chips"].values() if "gpu" in chip} == set(DATA["gpus"])
    assert {chip["npu"] for chip in DATA["chips"].values() if "npu" in chip} == set(DATA["npus"])
    for device in devices().values():
        assert set(device.chips) <= set(known), device.name
        assert device.chips, device.name


def test_chips_of_one_die_have_one_vendor_and_one_kind_of_big_core() -> None:
    """Apart from the dies that stand for a line of server CPUs."""
    for chip in chips().values():
        head = chips().get(chip.die)
        if head is not None:
            assert head.vendor == chip.vendor, chip.id
            if head.cpu and chip.cpu:
                assert head.cpu[0].design == chip.cpu[0].design, chip.id


def test_numbers_are_in_the_range_of_existing_chips() -> None:
    for chip in chips().values():
        assert chip.year is None or 2006 <= chip.year <= 2026, chip.id
        assert chip.process_nm is None or 2 <= chip.process_nm <= 90, chip.id
        assert chip.bandwidth_gb_s is None or 1 <= chip.bandwidth_gb_s <= 8000, chip.id
        assert chip.gpu_mhz is None or 200 <= chip.gpu_mhz <= 3200, chip.id
        assert chip.npu_tops is None or 0.1 <= chip.npu_tops <= 1000, chip.id
        for cluster in chip.cpu:
            assert cluster.ghz is None or 0.06 <= cluster.ghz <= 6, chip.id
            assert cluster.cores is None or 1 <= cluster.cores <= 256, chip.id
            assert cluster.fma_bits is None or cluster.simd_bits is not None, chip.id


def test_spellings_are_unique() -> None:
    """A whole name means one chip; without its brand it may mean several ("A10")."""
    owners: dict[str, list[str]] = {}
    for name, entry in [*DATA["chips"].items(), *DATA["devices"].items()]:
        meant = entry.get("chips", [name])
        for way in {name, entry.get("name", name), *entry.get("aliases", ())}:
            assert owners.setdefault(way.lower(), meant) == meant, way


# Facts, worked out by hand


def test_the_snapdragon_855_is_as_qualcomm_states() -> None:
    chip = chips()["sm8150"]

    assert (chip.name, chip.vendor, chip.year, chip.process_nm) == ("Snapdragon 855", "Qualcomm", 2018, 7)
    assert [str(cluster) for cluster in chip.cpu] == [
        "1 x kryo-485-prime (cortex-a76) 2.84 GHz",
        "3 x kryo-485-gold (cortex-a76) 2.42 GHz",
        "4 x kryo-485-silver (cortex-a55) 1.78 GHz",
    ]
    assert (chip.gpu, chip.gpu_family, chip.npu) == ("Adreno 640", "adreno6xx", "hexagon-v66")


def test_the_peak_of_an_arm_gpu_is_that_of_its_cores_where_the_clock_is_known() -> None:
    """Twelve cores at 702 MHz, each 24 FMA a clock; the clock of the other is not published."""
    assert chips()["exynos9820"].gpu_gflops == pytest.approx(2 * 12 * 24 * 0.702)
    assert chips()["mt6983"].gpu_gflops is None


def test_facts_of_a_cpu_are_those_of_the_cores_that_a_unit_runs_on() -> None:
    chip = chips()["sm8150"]

    big, small = facts(chip, "cpu", "1large"), facts(chip, "cpu", "4small")

    assert big["log2_ghz"] == pytest.approx(math.log2(2.84))
    assert (big["log2_cores"], big["log2_cluster_cores"], big["log2_simd_bits"], big["log2_fma_bits"]) == (3.0, 0.0, 7.0, 8.0)
    assert (big["out_of_order"], big["dotprod"], big["i8mm"], big["avx512"], big["core=cortex-a76"]) == (1.0, 1.0, 0.0, 0.0, 1.0)
    assert (big["year"], big["log2_bandwidth_gb_s"]) == (0.0, pytest.approx(math.log2(34.1)))
    assert small["log2_ghz"] == pytest.approx(math.log2(1.78))
    assert (small["log2_cluster_cores"], small["out_of_order"], small["core=cortex-a55"]) == (2.0, 0.0, 1.0)
    assert facts(chip, "cpu", "cpu4+little") == small
    assert facts(chip, "cpu", "1med")["log2_ghz"] == pytest.approx(math.log2(2.42))
    assert facts(chip, "cpu", "1large1med") == facts(chip, "cpu") == big


def test_facts_of_gpus_and_npus_name_their_family() -> None:
    mali, hexagon = facts(chips()["kirin970"], "gpu"), facts(chips()["qcs8550"], "npu")

    assert mali["gpu=mali-bifrost"] == 1.0
    assert mali["log2_gpu_gflops"] == pytest.approx(math.log2(2 * 12 * 12 * 0.746))
    assert {"npu=hexagon", "memory=LPDDR5X"} <= set(hexagon)
    assert hexagon["log2_tops"] == pytest.approx(math.log2(48))
    # The RK3588 has three cores of 2 TOPS.
    assert [facts(chips()["rk3588"], "npu", unit)["log2_tops"] for unit in ("npu+rknn", "npu+1core+rknn")] == pytest.approx(
        [math.log2(6), 1.0]
    )


def test_unknown_facts_are_absent() -> None:
    assert facts(chips()["qcm6690"], "cpu") == {"year": 1.4, "vendor=Qualcomm": 1.0}
    assert facts(chips()["qcm6690"], "npu") == {"year": 1.4, "vendor=Qualcomm": 1.0, "npu=hexagon": 1.0}
    assert facts(chips()["rtx-4090"], "cpu").keys() == {"year", "log2_bandwidth_gb_s", "vendor=NVIDIA"}


def test_the_kind_of_unit_is_checked() -> None:
    for wrong in (lambda: facts(chips()["sm8150"], "dsp"), lambda: nearest(chips()["sm8150"], "dsp")):
        with pytest.raises(LatcastError, match="the kind of unit is 'dsp'; expected one of cpu, gpu, npu"):
            wrong()


def test_every_chip_gives_finite_facts_for_every_kind_of_unit() -> None:
    for chip in chips().values():
        for kind in ("cpu", "gpu", "npu"):
            assert all(math.isfinite(value) for value in facts(chip, kind).values()), chip.id


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cpu", ["sm8150", "sm8150-ac", "rk3588", "sm8550", "exynos9820"]),
        ("gpu", ["sm8150", "sm8150-ac", "sm8250", "sm8550", "rk3588"]),
        ("npu", ["sm8150", "sm8150-ac", "sm8250", "sm8550", "exynos9820"]),
    ],
)
def test_the_nearest_are_the_chip_its_silicon_its_core_or_family_and_then_its_vendor(kind: str, expected: list[str]) -> None:
    known = [chips()[name] for name in expected]

    found = sorted([None, *reversed(known)], key=nearest(chips()["sm8150"], kind))

    assert [chip and chip.id for chip in found] == [*expected, None]


# What a text means


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("855", "Snapdragon 855"), ("sd855", "Snapdragon 855"), ("SD8G3", "Snapdragon 8 Gen 3"),
        ("Snapdragon 855", "Snapdragon 855"),
        ("snapdragon855", "Snapdragon 855"), ("sm8150", "Snapdragon 855"), ("SM-8150", "Snapdragon 855"),
        ("Qualcomm SM8150", "Snapdragon 855"), ("855+", "Snapdragon 855+"), ("snapdragon 855 plus", "Snapdragon 855+"),
        ("8gen3", "Snapdragon 8 Gen 3"), ("8 Gen 3", "Snapdragon 8 Gen 3"), ("pixel 4", "Pixel 4"), ("PIXEL_4", "Pixel 4"),
        ("pixel4", "Pixel 4"), ("pi5", "Raspberry Pi 5"), ("pi 5", "Raspberry Pi 5"), ("raspberry-pi 5", "Raspberry Pi 5"),
        ("redmi note 8", "Redmi Note 8"), ("Redmi Note8", "Redmi Note 8"), ("rk3588", "RK3588"), ("Rockchip RK3588", "RK3588"),
        ("3090", "GeForce RTX 3090"), ("RTX 3090", "GeForce RTX 3090"), ("mi 9", "Xiaomi Mi 9"), ("one plus 7", "OnePlus 7"),
        ("SM-G973F", "Galaxy S10 (Exynos)"),
    ],
)  # fmt: skip
def test_the_first_result_is_the_usual_meaning(text: str, name: str) -> None:
    first = find(text)[0]

    assert first.name == name
    assert first.exact == (text != "3090")


def test_longer_names_come_after_the_name_itself() -> None:
    assert [found.name for found in find("redmi note 8")] == ["Redmi Note 8", "Redmi Note 8 Pro"]
    assert [found.exact for found in find("redmi note 8")] == [True, False]
    assert {found.name for found in find("jetson orin")} >= {"Jetson AGX Orin", "Jetson Orin NX", "Jetson Orin Nano"}
    assert [found.name for found in find("galaxy s7")][:2] == ["Galaxy S7 (Exynos)", "Galaxy S7 (Snapdragon)"]


@pytest.mark.parametrize("text", ["cortex-a76", "Cortex A76", "a76"])
def test_a_core_finds_the_chips_that_have_it_or_one_made_from_it(text: str) -> None:
    found = find(text)

    assert {each.by for each in found} == {"core"}
    assert {"Snapdragon 855", "RK3588", "BCM2712", "Kirin 980"} <= {each.name for each in found}
    assert "RK3399" not in {each.name for each in found}


def test_a_core_comes_before_names_that_only_contain_it() -> None:
    assert {each.by for each in find("cascade lake")} == {"core"}


def test_a_gpu_or_an_npu_finds_the_chips_that_have_it() -> None:
    assert {each.name for each in find("ethos u55")} == {"Ensemble E7", "WiseEye2 HX6538"}
    assert {"BCM2711", "BCM2712"} <= {each.name for each in find("videocore")}
    assert {each.name for each in find("adreno 640")} == {"Snapdragon 855", "Snapdragon 855+"}
    assert {each.name for each in find("ethos-u65-256")} == {"i.MX 93"}
    assert {each.by for each in find("hexagon")} == {"npu"}


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("855", "8550"), ("nano", "nanopi"), ("pi 5", "nanopi"), ("s10", "s10e"), ("a5", "a53"), ("orin", "nano 33"),
        ("rk3588", "rk3588s"),
    ],
)  # fmt: skip
def test_a_part_of_a_word_is_not_a_name(text: str, never: str) -> None:
    assert find(text)
    for found in find(text):
        assert never not in found.name.lower(), found.name


@pytest.mark.parametrize("text", ["", "  ", "-", "gpu", "apple gpu", "nothing of the kind", "85", "snapdragon 8550", "pixel"[:4]])
def test_meaningless_texts_find_nothing(text: str) -> None:
    assert find(text) == ()


@pytest.mark.parametrize(
    ("device", "chip", "kind", "expected"),
    [
        # As tables of latencies have them.
        ("Samsung Galaxy S25", "snapdragon-8-elite-for-galaxy", "npu", "sm8750-ac"),
        ("Snapdragon 8 Elite Gen 5 QRD", "snapdragon-8-elite-gen5", "npu", "sm8850"),
        ("QCS8550 (Proxy)", "qcs8550-proxy", "cpu", "qcs8550"),
        ("Firefly RK3588S", "RK3588S", "gpu", "rk3588s"),
        ("AWS m7g.2xlarge", "Graviton3", "cpu", "graviton3"),
        ("AWS a1.2xlarge", "Graviton", "cpu", "graviton"),
        ("Google n1-standard-4", "Intel Xeon @ 2.30GHz", "cpu", "xeon-e5-v3-gcp"),
        ("AMD Zen4 workstation", "AMD Ryzen 9 7950X 16-Core Processor", "cpu", "ryzen-9-7950x"),
        ("HP Z640 (GTX 1080)", "GeForce GTX 1080", "gpu", "gtx-1080"),
        ("HP Z640", "Intel Xeon E5-2650 v3", "cpu", "xeon-e5-2650v3"),
        ("TI", "AM625 (4x Cortex-A53)", "cpu", "am625"),
        ("RK3566/RK3568 board", "RK3566", "npu", "rk3566"),
        # The device's own bin of the silicon that is stated.
        ("Jetson Orin NX", "Orin", "gpu", "orin-nx"),
        ("Jetson Nano", "Tegra X1", "gpu", "tegra-x1-nano"),
        # As ncnn's boards are called.
        ("Qualcomm SM8150-AC Snapdragon 855+ (Kyro485 2.96 GHz + 2.42 GHz x 3 + 1.80 GHz x 4)", "", "cpu", "sm8150-ac"),
        ("Qualcomm MSM8996 Pro Snapdragon 821 (Kyro 2.35GHz x 2 + Kyro 2.19GHz x 2)", "", "cpu", "msm8996pro"),
        ("iPhone 5S (Apple A7 1.3GHz x 2)", "", "gpu", "apple-a7"),
        ("NanoPi R2S, Rockchip RK3328 (Cortex-A53 1.3GHz x 4) Armbian focal (21.05.1) aarch64", "", "cpu", "rk3328"),
        ("Hyper-V Linux Guest with GPU-PV enabled (Intel Core i7-7700K, NVIDIA GeForce GTX 1050 Ti)", "", "cpu", "i7-7700k"),
        ("Hyper-V Linux Guest with GPU-PV enabled (Intel Core i7-7700K, NVIDIA GeForce GTX 1050 Ti)", "", "gpu", "gtx-1050-ti"),
        ("Spacemit MUSE Pi Pro Spacemit M1 (Spacemit X60 *8)", "", "cpu", "spacemit-m1"),
        ("Intel® Core™ i7-13700K of Desktop[2023-10-12]", "", "cpu", "i7-13700k"),
        ("NVIDIA RTX3090 (GA102 SM x 82 + Tensor Core 328)", "", "gpu", "rtx-3090"),
        # As phones are called.
        ("Redmi_Note8_Pro", "", "cpu", "mt6785"),
        ("Redmi_Note3", "", "cpu", "msm8956"),
        ("RMX_1921", "", "cpu", "sdm712"),
        ("gm1901.2", "", "cpu", "sm8150"),
        ("samsung_a50", "", "cpu", "exynos9610"),
        ("pixel4", "", "gpu", "sm8150"),
        ("s10", "", "cpu", "exynos9820"),
        ("1080ti", "", "gpu", "gtx-1080-ti"),
        ("gold_6226", "", "cpu", "xeon-gold-6226"),
        # As a kernel calls a CPU.
        ("local", "Intel(R) Xeon(R) Platinum 8573C CPU @ 2.60GHz", "cpu", "xeon-platinum-8573c"),
        ("local", "Intel(R) Core(TM) i7-7700K CPU @ 4.20GHz", "cpu", "i7-7700k"),
        ("local", "AMD Ryzen 9 7950X 16-Core Processor", "cpu", "ryzen-9-7950x"),
    ],
)  # fmt: skip
def test_the_chip_of_a_device_is_found_as_datasets_name_them(device: str, chip: str, kind: str, expected: str) -> None:
    found = chip_of(device, chip, kind)

    assert found is not None
    assert found.id == expected


@pytest.mark.parametrize(
    ("device", "chip"),
    [
        ("Redmi Note 8 Ultra", ""),  # another one than the Redmi Note 8
        ("Galaxy S7", ""),  # two chips, by region
        ("titanx", ""),  # two generations of GPUs
        ("fpga", ""),
        ("", ""),
        ("Snapdragon 8 Elite Gen 6 QRD", "snapdragon-8-elite-gen6"),
        ("Xiaomi Mi 9 SE Pro", ""),
    ],
)
def test_unknown_or_ambiguous_texts_have_no_chip(device: str, chip: str) -> None:
    assert chip_of(device, chip) is None


@pytest.mark.parametrize(
    "texts",
    [
        [("pixel4", ""), ("Xiaomi Mi 9", "Snapdragon 855"), ("SDM855 reference device", "Snapdragon 855"), ("HD1905", "")],
        [("mi8se", ""), ("onefusion", ""), ("onefusion", "Snapdragon 710"), ("RMX_1921", "")],
        [("SA7255P ADP", "sa7255p"), ("QCS8275 (Proxy)", "qcs8275-proxy")],
        [("SA8775P ADP", "sa8775p"), ("Dragonwing IQ-9075 EVK", "qcs9075")],
        [("QCS8550 (Proxy)", "qcs8550-proxy"), ("Qualcomm SM8550-AB Snapdragon 8 Gen 2 (Kyro 3.20 GHz)", "")],
        [("Jetson AGX Orin (cTuning)", "Orin"), ("Jetson Orin NX", "Orin NX")],
        [("Jetson Xavier NX (MaxQ)", "Xavier NX"), ("NVIDIA Jetson AGX Xavier (Carmel 2.2 GHz x 8 + Volta Tensor Cores 64)", "")],
        [("RK3588 board", "RK3588"), ("Firefly RK3588S", "RK3588S"), ("OrangePi5, Rockchip RK3588s (Quad Core A76 2.4GHz)", "")],
        [("Raspberry Pi 3B PLUS", "BCM2837B0"), ("Raspberry Pi Zero 2 W", "RP3A0")],
        [("2080ti", ""), ("titan_rtx", ""), ("NVIDIA Quadro RTX 8000 (TU102 SM x 72 + Tensor Core x 576)", "")],
        [("gm1901", ""), ("gm1901.2", ""), ("GM1917", "")],
        [("Hailo-8", "Hailo-8"), ("Hailo-8 evaluation", "Hailo-8"), ("Hailo-8L", "Hailo-8L")],
    ],
)
def test_twins_of_silicon_are_one_group(texts: list[tuple[str, str]]) -> None:
    assert len({silicon(device, chip) for device, chip in texts}) == 1


def test_chips_with_similar_names_are_separate_groups() -> None:
    names = [
        ("Xiaomi Mi 9", "Snapdragon 855"), ("QCS8550 (Proxy)", "qcs8550-proxy"), ("Jetson Nano", ""), ("NanoPi R2S", ""),
        ("Huawei Mate 10", "Kirin 970"), ("Huawei Mate 20", "Kirin 980"), ("Huawei Mate 30", "Kirin 990"), ("s10", ""),
        ("SM-N970F", ""), ("Redmi Note 8", ""), ("Redmi Note 8 Pro", ""), ("MacBook Pro M1", "Apple M1"), ("Spacemit M1", ""),
        ("Apple A10", ""), ("NVIDIA A10", ""), ("RK3566 board", "RK3566"), ("RK3562 board", "RK3562"),
    ]  # fmt: skip

    assert len({silicon(device, chip) for device, chip in names}) == len(names)


def test_an_unknown_device_is_a_group_by_its_name_alone() -> None:
    assert silicon("Phone_of_Tomorrow 2") == silicon("phone-of-tomorrow 2") != silicon("phone of tomorrow 3")
    assert silicon("phone.2") == silicon("phone")
    assert silicon("a board", "Chip 1") == silicon("another board", "chip-1")


def test_the_phones_of_the_published_dataset_have_the_chips_that_their_paper_states() -> None:
    from latcast.datasets.importers.usc.networks import PHONES
    from latcast.kernels.selection import device_families
    from papers.splits import SAME_DEVICE

    for name, hardware in PHONES.items():
        chip, stated = chip_of(name), chip_of("", hardware.soc)
        assert chip is not None
        assert chip == stated, name
        assert chip.gpu_family is not None
        # Of the GPUs before its own ones Apple says only what they are made from.
        assert chip.gpu_family.startswith(device_families()[name]) or (name, chip.gpu_family) == ("iphone7", "powervr-rogue")
    for twin, other in SAME_DEVICE.items():
        assert silicon(twin) == silicon(other)


@pytest.mark.parametrize("written", ["as it stands", "UPPER_CASE", "in-a-longer text"])
def test_every_name_of_the_table_means_its_chip_however_it_is_written(written: str) -> None:
    # Looking inside of texts is slower: every tenth name is enough.
    for text, owner, is_device in spellings()[:: 10 if written == "in-a-longer text" else 1]:
        may_be_several = is_device and owner.startswith(f"{text} (")
        if written == "UPPER_CASE":
            text = text.upper().replace(" ", "_")
        elif written == "in-a-longer text":
            if not is_telling(text, joined(text)):
                continue
            text = f"New {text.replace(' ', '-')} (black, 2 units)"
        found = chip_of(text) if is_device else chip_of("", text)
        expected = devices()[owner].chips if is_device else (owner,)
        # A short name without its brand may be that of several.
        assert (found and found.id) in (*expected, None), text
        assert found is not None or len(joined(text)) < 5 or may_be_several, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Amlogic S905X (4 cores)", "s905x"), ("aws graviton (4 cores)", "graviton"), ("S905X, 4 cores", "s905x"),
        ("Hailo-8 [L]ab", "hailo-8"),
    ],
)  # fmt: skip
def test_a_name_does_not_go_over_a_bracket(text: str, expected: str) -> None:
    found = chip_of(text)

    assert found is not None
    assert found.id == expected


@pytest.mark.parametrize(
    ("known", "chip", "another"),
    [
        ("Realme GT", "Snapdragon 888", "Realme GT 99"),
        ("Xiaomi 12 Pro", "Snapdragon 8 Gen 1", "Acme 12 Pro"),
        ("Moto G Power (2020)", "Snapdragon 665", "Moto G Power 2029"),
    ],
)
def test_a_number_a_year_or_another_maker_beside_a_name_makes_it_another_device(known: str, chip: str, another: str) -> None:
    found = chip_of(known)

    assert found is not None
    assert found.name == chip
    assert chip_of(another) is None


def test_gigabytes_and_frequencies_behind_a_name_leave_it_the_device() -> None:
    assert chip_of("Jetson Orin NX 16 GB") == chip_of("Jetson Orin NX") is not None
    assert chip_of("Raspberry Pi 4 1.5 GHz") == chip_of("Raspberry Pi 4") is not None


def test_a_phone_is_not_taken_for_the_core_that_its_model_is_called_like() -> None:
    assert {each.by for each in find("A76")} == {"core"}
    assert find("Oppo A76") == ()


@pytest.mark.parametrize("name", ["Motorola Moto G84", "TI TDA4VM", "Sophgo CV1800B", "Hailo Hailo-8"])
def test_a_maker_before_a_name_that_lacks_it_is_understood(name: str) -> None:
    assert [each.exact for each in find(name)] == [True]
