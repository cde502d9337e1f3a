"""What is built for the space ``aihub``: name and input as published, the true inputs, the module, figures to compare with.

Inputs are those of the code that was measured, ``get_input_spec`` of quic/ai-hub-models v0.45.0. What a model's description
states, which is the key here, is another size for some: FCN-ResNet50 runs at 520x520, YOLOv3 and the DETRs at 640x640,
EfficientNet-B4 and EfficientNetV2-S at 224x224, MobileViT at 256x256, BlazeFace's landmarks at 192x192, BlazePose's detector at
128x128, EasyOCR's recogniser at 64x800, WavLM on ten seconds; PSPNet sees an image and its mirror image, and the small FFNets
halve theirs first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.named_networks.aihub import (
    mediapipe,
    pose,
    qualcomm,
    recognition,
    segmentation,
    superresolution,
    transformers,
    yolo,
)
from benchmarks.named_networks.recipes import Recipe
from latcast.spaces.named_graphs import Origin

Shapes = Sequence[Sequence[int]]
Make = Callable[[], Any]

STATED = "quic/ai-hub-models v0.45.0, technical details"


def recipes() -> list[Recipe]:
    """All of them."""
    return [*_published(), *_own(), *_transformers()]


def _recipe(
    name: str,
    given: str | None,
    shapes: Shapes,
    make: Make,
    million_parameters: float | None = None,
    *,
    origin: Origin | None = None,
) -> Recipe:
    return Recipe(
        name,
        given,
        shapes,
        make,
        million_parameters=million_parameters,
        figures=STATED if million_parameters else "",
        origin=origin,
    )


def _image(height: int, width: int | None = None, channels: int = 3) -> list[tuple[int, ...]]:
    return [(1, channels, height, width or height)]


def _published() -> list[Recipe]:
    """Networks that torchvision and timm build."""
    import timm
    import torchvision

    vision = Origin(
        f"torchvision {torchvision.__version__.partition('+')[0]}", "https://github.com/pytorch/vision", "BSD-3-Clause"
    )
    images = Origin(f"timm {timm.__version__}", "https://github.com/huggingface/pytorch-image-models", "Apache-2.0")

    def of_vision(name: str, model: str, given: str = "224x224", shapes: Shapes | None = None, **more: Any) -> Recipe:
        return _recipe(
            name, given, shapes or _image(224), lambda: torchvision.models.get_model(model, weights=None, **more), origin=vision
        )

    def of_timm(name: str, model: str) -> Recipe:
        return _recipe(name, "224x224", _image(224), lambda: timm.create_model(model), origin=images)

    video = [(1, 3, 16, 112, 112)]
    fcn = segmentation.fully_convolutional
    return [
        of_vision("inception_v3", "inception_v3", aux_logits=False, init_weights=False),
        of_vision("wideresnet50", "wide_resnet50_2"),
        of_vision("convnext_tiny", "convnext_tiny"),
        of_vision("convnext_base", "convnext_base"),
        of_vision("efficientnet_v2_s", "efficientnet_v2_s", "384x384"),
        of_vision("efficientnet_b4", "efficientnet_b4", "380x380"),
        of_vision("resnet_3d", "r3d_18", "112x112", video),
        of_vision("resnet_mixed", "mc3_18", "112x112", video),
        _recipe("fcn_resnet50", "224x224", _image(520), fcn, origin=vision),
        of_timm("levit", "levit_128s"),
        of_timm("sequencer2d", "sequencer2d_s"),
        of_timm("efficientvit_b2_cls", "efficientvit_b2"),
        of_timm("nasnet", "nasnetalarge"),
    ]


def _own() -> list[Recipe]:
    q, m, r, s, y = qualcomm, mediapipe, recognition, segmentation, yolo
    small, nano = _image(128), {"widths": (16, 32, 64, 128, 256), "depths": (1, 2, 2, 1)}
    yolos = _image(640)
    rows: list[tuple[Any, ...]] = [
        ("face_det_lite", "480x640", _image(480, 640, 1), q.face_det_lite, 0.878),
        ("foot_track_net", "640x480", _image(640, 480), q.foot_track_net, 2.53),
        ("face_attrib_net", "128x128", _image(128), q.FaceAttributes),
        ("gear_guard_net", "320x192", _image(320, 192), q.GearGuard, 6.19),
        ("quicksrnetsmall", "128x128", small, lambda: superresolution.QuickSRNet(32, 2)),
        ("quicksrnetmedium", "128x128", small, lambda: superresolution.QuickSRNet(32, 5)),
        ("quicksrnetlarge", "128x128", small, lambda: superresolution.QuickSRNet(64, 11, connected=True)),
        ("sesr_m5", "128x128", small, lambda: superresolution.SESR(5), 0.343),
        ("xlsr", "128x128", small, superresolution.XLSR),
        ("real_esrgan_general_x4v3", "128x128", small, superresolution.CompactVGG, 1.21),
        ("real_esrgan_x4plus", "128x128", small, superresolution.RRDBNet),
        ("mediapipe_face/FaceDetector", "256x256", _image(256), m.face_detector, 0.135),
        ("mediapipe_face/FaceLandmarkDetector", "256x256", _image(192), m.FaceLandmarks, 0.603),
        ("mediapipe_pose/PoseDetector", "256x256", _image(128), m.pose_detector, 0.815),
        ("mediapipe_pose/PoseLandmarkDetector", "256x256", _image(256), m.PoseLandmarks, 3.36),
        ("mediapipe_hand/HandDetector", "256x256", _image(256), m.PalmDetector, 1.76),
        ("mediapipe_hand/HandLandmarkDetector", "256x256", _image(256), m.HandLandmarks, 2.01),
        ("ffnet_78s", "2048x1024", _image(1024, 2048), lambda: s.ffnet_s((6, 12, 12, 8), 2, large=True)),
        ("ffnet_54s", "2048x1024", _image(1024, 2048), lambda: s.ffnet_s((5, 8, 8, 5), 2, large=True)),
        ("ffnet_78s_lowres", "1024x512", _image(512, 1024), lambda: s.ffnet_s((6, 12, 12, 8), 1, large=False)),
        ("ffnet_122ns_lowres", "1024x512", _image(512, 1024), s.ffnet_122ns),
        ("bisenet", "720x960", _image(720, 960), s.BiSeNet),
        ("pidnet", "1024x2048", _image(1024, 2048), s.PIDNet),
        ("ddrnet23_slim", "2048x1024", _image(1024, 2048), s.DDRNet),
        ("deeplabv3_plus_mobilenet", "513x513", _image(513), s.DeepLabMobile),
        ("deeplab_xception", "480x520", _image(480, 520), s.DeepLabXception),
        ("pspnet", "1x3x473x473", _image(473), s.PSPNet),
        ("bgnet", "416x416", _image(416), s.BGNet),
        ("aotgan", "512x512", [*_image(512), *_image(512, channels=1)], s.AOTGAN),
        ("hrnet_pose", "256x192", _image(256, 192), lambda: pose.HRNet("hrnet_w32", 17, all_branches=False)),
        ("hrnet_face", "256x256", _image(256), lambda: pose.HRNet("hrnet_w18", 29, all_branches=True)),
        ("posenet_mobilenet", "513x257", _image(513, 257), pose.PoseNet),
        ("rtmpose_body2d", "256x192", _image(256, 192), pose.RTMPose),
        ("yolov3", "416p (416x416)", yolos, y.TinyV3),
        ("yolov5", "640x640", yolos, y.yolov5mu),
        ("yolov6", "640x640", yolos, y.YoloV6),
        ("yolov7", "640x640", yolos, y.TinyV7),
        ("yolov8_det", "640x640", yolos, lambda: y.yolov8(**nano)),
        ("yolov8_seg", "640x640", yolos, lambda: y.yolov8(**nano, masks=64)),
        ("yolov11_seg", "640x640", yolos, y.yolov11n_seg),
        ("fastsam_s", "640x640", yolos, lambda: y.yolov8((32, 64, 128, 256, 512), (1, 2, 2, 1), classes=1, masks=128)),
        ("fastsam_x", "640x640", yolos, lambda: y.yolov8((80, 160, 320, 640, 640), (3, 6, 6, 3), classes=1, masks=320)),
        ("yamnet", "1x1x96x64", _image(96, 64, 1), r.YAMNet),
        ("easyocr/EasyOCRDetector", "608x800", _image(608, 800), r.CRAFT),
        ("easyocr/EasyOCRRecognizer", "608x800", _image(64, 800, 1), r.CRNN),
        ("cavaface", "112x112", _image(112), r.FaceEmbedding),
        ("deepbox/VGG3DDetection", None, _image(224), r.DeepBox),
        ("deepbox/Yolo2DDetection", None, _image(224, 640), y.TinyV3),
        ("salsanext", "1x5x64x2048", _image(64, 2048, 5), r.SalsaNext),
        ("detectron2_detection/Detectron2ProposalGenerator", "800x800", _image(800), r.ProposalGenerator),
        ("detectron2_detection/Detectron2ROIHead", "800x800", [(1, 1024, 50, 50), (1, 200, 4)], r.RegionHead),
    ]
    for size, sizes in (("tiny", (384, 4, 6)), ("base", (512, 6, 8)), ("small", (768, 12, 12))):
        rows += _whisper(f"whisper_{size}/HfWhisper{{}}", sizes)
        if size == "small":
            rows += _whisper("whisper_small_quantized/WhisperSmall{}Quantizable", sizes)
    for pair in ("en_es", "es_en", "en_zh", "zh_en"):
        given = {"en": "256 tokens (English text)", "es": "256 tokens (Spanish text)", "zh": "256 tokens (Chinese text)"}[
            pair[:2]
        ]
        encoder, decoder = f"opus_mt_{pair}/OpusMTEncoder", f"opus_mt_{pair}/OpusMTDecoder"
        rows.append((encoder, given, [(1, 256), (1, 256)], lambda: transformers.MarianEncoder(65001)))
        rows.append((decoder, given, transformers.MarianDecoder.shapes(), lambda: transformers.MarianDecoder(65001)))
    return [_recipe(*row) for row in rows]


def _whisper(name: str, sizes: tuple[int, int, int]) -> list[tuple[Any, ...]]:
    given, t = "80x3000 (30 seconds audio)", transformers
    return [
        (name.format("Encoder"), given, [(1, 80, 3000)], lambda: t.WhisperEncoder(*sizes)),
        (name.format("Decoder"), given, t.WhisperDecoder.shapes(*sizes), lambda: t.WhisperDecoder(*sizes)),
    ]


def _transformers() -> list[Recipe]:
    """Networks that transformers and diffusers build."""
    from importlib.metadata import version

    hub = "https://github.com/huggingface"
    texts = Origin(f"transformers {version('transformers')}", f"{hub}/transformers", "Apache-2.0")
    diffusion = Origin(f"diffusers {version('diffusers')}", f"{hub}/diffusers", "Apache-2.0")
    t, text, image = transformers, [(1, 384), (1, 384)], _image(640)
    rows: list[tuple[Any, ...]] = [
        ("bert_base_uncased_hf", "1x384", text, t.bert),
        ("albert_base_v2_hf", "1x384", text, t.albert),
        ("electra_bert_base_discrim_google", "1x384", text, t.electra),
        ("nomic_embed_text", "1x128 (seqlen can vary)", [(1, 128), (1, 128)], t.nomic),
        ("beit", "224x224", _image(224), t.beit),
        ("depth_anything", "518x518", _image(518), lambda: t.depth_anything((9, 10, 11, 12))),
        ("depth_anything_v2", "518x518", _image(518), lambda: t.depth_anything((3, 6, 9, 12))),
        ("detr_resnet50", "480x480", image, lambda: t.detr((3, 4, 6, 3))),
        ("detr_resnet101", "480x480", image, lambda: t.detr((3, 4, 23, 3))),
        ("conditional_detr_resnet50", "480x480", image, lambda: t.detr((3, 4, 6, 3), conditional=True)),
        ("mobile_vit", "224x224", _image(256), t.mobile_vit),
        ("video_mae", "224x224", [(1, 16, 3, 224, 224)], t.video_mae),
        ("huggingface_wavlm_base_plus", "1x320000", [(1, 160000)], t.wavlm),
    ]
    first = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    second = {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 23,
        "num_attention_heads": 16,
        "hidden_act": "gelu",
    }
    heads = {"attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True}
    latent: list[tuple[int, ...]] = [(1, 4, 64, 64)]
    decoders = [
        _recipe(f"stable_diffusion_{name}/vae", None, latent, t.LatentDecoder, origin=diffusion) for name in ("v1_5", "v2_1")
    ]
    denoisers = [
        Recipe(f"stable_diffusion_{name}/unet", None, [*latent, (1,), (1, 77, width)], lambda: None, origin=diffusion, read=read)
        for name, width, read in (
            ("v1_5", 768, lambda: t.denoiser_graph(cross_attention_dim=768)),
            ("v2_1", 1024, lambda: t.denoiser_graph(cross_attention_dim=1024, **heads)),
        )
    ]
    rows.append(("stable_diffusion_v1_5/text_encoder", None, [(1, 77)], lambda: t.clip_text(**first)))
    rows.append(("stable_diffusion_v2_1/text_encoder", None, [(1, 77)], lambda: t.clip_text(**second)))
    return [*(_recipe(*row, origin=texts) for row in rows), *decoders, *denoisers]
