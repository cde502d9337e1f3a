"""Small graphs, one for each thing that the writers of TFLite and ncnn must get right; sizes are odd and never square."""

from __future__ import annotations

from collections.abc import Callable

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph

Build = Callable[[GraphBuilder], str | tuple[str, ...]]


def graph_of(build: Build, name: str = "case") -> Graph:
    b = GraphBuilder(name)
    outputs = build(b)
    return b.finish(*((outputs,) if isinstance(outputs, str) else outputs))


def image(b: GraphBuilder, channels: int = 6, height: int = 11, width: int = 14) -> str:
    """A feature map that is no square, of odd and of even size."""
    return b.input((1, channels, height, width))


def unary(op_type: str, **attributes: float) -> Build:
    return lambda b: b.op(op_type, [image(b)], attributes)[0]


def positive_unary(op_type: str) -> Build:
    return lambda b: b.op(op_type, [b.op("Exp", [image(b)])[0]])[0]


def with_weight(op_type: str, *shape: int) -> Build:
    return lambda b: b.op(op_type, [image(b), b.weight(shape)])[0]


def average_pool(kernel: int, stride: int, pads: tuple[int, ...], **attributes: int) -> Build:
    def build(b: GraphBuilder) -> str:
        pooling = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": pads, **attributes}
        return b.op("AveragePool", [image(b)], pooling)[0]

    return build


def conv_transpose(kernel: int, stride: int, pads: tuple[int, ...], extra: int = 0, groups: int = 1) -> Build:
    def build(b: GraphBuilder) -> str:
        x = image(b)
        given = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": pads,
                 "output_padding": (extra, extra), "group": groups}  # fmt: skip
        return b.op("ConvTranspose", [x, b.weight((6, 4 // groups, kernel, kernel)), b.weight((4,))], given)[0]

    return build


def resize(mode: str, placement: str, size: tuple[int, int], **attributes: str) -> Build:
    def build(b: GraphBuilder) -> str:
        target = b.constant([1, 6, *size], dtype="int64")
        given = {"mode": mode, "coordinate_transformation_mode": placement, **attributes}
        return b.op("Resize", [image(b), "", "", target], given)[0]

    return build


def reduce(op_type: str, axes: tuple[int, ...], keepdims: int) -> Build:
    # Products of a whole map would vanish, so every reduction starts from values near 1.
    return lambda b: b.op(op_type, [b.sigmoid(image(b))], {"axes": axes, "keepdims": keepdims})[0]


def same_upper(b: GraphBuilder) -> str:
    x = image(b)
    attributes = {"kernel_shape": (3, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"}
    return b.op("Conv", [x, b.weight((8, 6, 3, 3))], attributes)[0]


def lopsided(b: GraphBuilder) -> str:
    x = image(b)
    attributes = {"kernel_shape": (3, 4), "strides": (2, 1), "pads": (0, 2, 1, 1)}
    return b.op("Conv", [x, b.weight((8, 6, 3, 4))], attributes)[0]


def shifted(b: GraphBuilder) -> str:
    """As many outputs as SAME gives, but all padding at the end."""
    attributes = {"kernel_shape": (3, 3), "pads": (0, 1, 2, 1)}
    return b.op("Conv", [image(b), b.weight((8, 6, 3, 3))], attributes)[0]


def conv_then(activation: Callable[[GraphBuilder, str], str]) -> Build:
    return lambda b: activation(b, b.batch_norm(b.conv(image(b), 8, 3, stride=2)))


def tokens(b: GraphBuilder) -> str:
    return b.input((1, 10, 12))


def to_tokens_and_back(b: GraphBuilder) -> str:
    x = b.conv(image(b), 8, 1)
    t = b.transpose(b.reshape(x, (1, 8, 11 * 14)), (0, 2, 1))
    t = b.linear(b.layer_norm(t), 8)
    return b.conv(b.reshape(b.transpose(t, (0, 2, 1)), (1, 8, 11, 14)), 4, 3)


def class_token(b: GraphBuilder) -> str:
    x = tokens(b)
    x = b.concat([b.weight((1, 1, 12)), x], axis=1)
    return b.linear(b.op("Gather", [x, b.constant(0, dtype="int64")], {"axis": 1})[0], 5)


def swin_merge(b: GraphBuilder) -> str:
    """Patch merging on (N, H, W, C): four strided slices, concatenated."""
    x = b.transpose(image(b, 6, 8, 12), (0, 2, 3, 1))
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        bounds = [b.constant(v, dtype="int64") for v in ([row, column], [8, 12], [1, 2], [2, 2])]
        parts.append(b.op("Slice", [x, *bounds])[0])
    return b.linear(b.layer_norm(b.concat(parts, axis=3)), 12)


def rolled(b: GraphBuilder) -> str:
    x = b.transpose(image(b, 6, 8, 12), (0, 2, 3, 1))
    x = b.concat([b.slice(x, [3], [2**62], [1]), b.slice(x, [0], [3], [1])], axis=1)
    x = b.reshape(x, (1, 2, 4, 3, 4, 6))
    x = b.reshape(b.transpose(x, (0, 1, 3, 2, 4, 5)), (6, 16, 6))
    return b.attention(x, 2)


def erf_gelu(b: GraphBuilder) -> str:
    """The other order of exporters: the half is multiplied to x, the scale is a product."""
    x = tokens(b)
    half = b.mul(x, b.constant(0.5, dtype="float32"))
    inner = b.op("Erf", [b.mul(x, b.constant(2**-0.5, dtype="float32"))])[0]
    return b.mul(half, b.add(inner, b.constant(1.0, dtype="float32")))


def head(b: GraphBuilder, *, dropout: bool = False) -> str:
    x = b.flatten(b.max_pool(b.conv(image(b), 5, 3), 2))
    x = b.op("Dropout", [x])[0] if dropout else x
    return b.linear(b.relu(b.linear(x, 16)), 4)


def mixed_layouts(b: GraphBuilder) -> str:
    """The same tensor read as an image and as a plain array."""
    x = b.conv(image(b, 6, 5, 7), 6, 3)
    flat = b.reshape(x, (1, 6 * 5 * 7))
    scaled = b.mul(flat, b.constant(2.0, dtype="float32"))
    return b.add(b.relu(x), b.reshape(scaled, (1, 6, 5, 7)))


def gated(b: GraphBuilder) -> str:
    x = image(b)
    return b.mul(x, b.hard_sigmoid(x))


def read_twice(b: GraphBuilder) -> str:
    """A convolution whose normalisation cannot be folded, because its own output is needed too."""
    x = b.conv(image(b), 6, 3)
    return b.add(b.relu(b.batch_norm(x)), x)


def pixel_shuffle(mode: str) -> Build:
    return lambda b: b.op("DepthToSpace", [image(b, 12)], {"blocksize": 2, "mode": mode})[0]


CASES: dict[str, Build] = {
    "conv": lambda b: b.conv(image(b), 8, 3, bias=True),
    "conv_1x1": lambda b: b.conv(image(b), 8, 1),
    "conv_stride_2": lambda b: b.conv(image(b), 8, 3, stride=2),
    "conv_stride_2_7x7": lambda b: b.conv(image(b), 8, 7, stride=2),
    "conv_rectangular": lambda b: b.conv(image(b), 8, (1, 5), stride=(2, 1)),
    "conv_valid": lambda b: b.conv(image(b), 8, 4, padding=0),
    "conv_dilated": lambda b: b.conv(image(b), 8, 3, dilation=2),
    "conv_dilated_strided": lambda b: b.conv(image(b), 8, 3, dilation=2, stride=2),
    "conv_same_upper": same_upper,
    "conv_lopsided": lopsided,
    "conv_shifted": shifted,
    "conv_grouped": lambda b: b.conv(image(b), 8, 3, groups=2, bias=True),
    "conv_grouped_1x1": lambda b: b.conv(image(b), 9, 1, groups=3),
    "conv_grouped_stride_2": lambda b: b.conv(image(b), 8, 3, groups=2, stride=2),
    "conv_one_channel": lambda b: b.conv(image(b, 1), 4, 3),
    "conv_batch": lambda b: b.conv(b.input((3, 4, 9, 6)), 8, 3),
    "depthwise": lambda b: b.depthwise_conv(image(b), 3, bias=True),
    "depthwise_5x5_stride_2": lambda b: b.depthwise_conv(image(b), 5, stride=2),
    "depthwise_multiplied": lambda b: b.conv(image(b), 12, 3, groups=6),
    "depthwise_dilated": lambda b: b.conv(image(b), 6, 3, groups=6, dilation=2),
    "conv_bn_relu": conv_then(lambda b, x: b.relu(x)),
    "conv_bn_relu6": conv_then(lambda b, x: b.relu6(x)),
    "conv_bn_clip": conv_then(lambda b, x: b.clip(x, -1.0, 1.0)),
    "conv_bn_hard_swish": conv_then(lambda b, x: b.hard_swish(x)),
    "conv_bn_silu": conv_then(lambda b, x: b.silu(x)),
    "conv_transpose": conv_transpose(2, 2, (0, 0, 0, 0)),
    "conv_transpose_3x3": conv_transpose(3, 2, (1, 1, 1, 1), 1),
    "conv_transpose_cropped": conv_transpose(4, 2, (1, 1, 1, 1)),
    "conv_transpose_uneven": conv_transpose(5, 2, (2, 1, 1, 2)),
    "conv_transpose_stride_1": conv_transpose(3, 1, (1, 1, 1, 1)),
    "conv_transpose_small_kernel": conv_transpose(2, 3, (0, 0, 0, 0)),
    "conv_transpose_grouped": conv_transpose(2, 2, (0, 0, 0, 0), groups=2),
    "conv_transpose_grouped_cropped": conv_transpose(3, 2, (1, 1, 1, 1), 1, groups=2),
    "max_pool": lambda b: b.max_pool(image(b), 2),
    "max_pool_padded": lambda b: b.max_pool(image(b), 3, 2, 1),
    "max_pool_padded_after_relu": lambda b: b.max_pool(b.relu(image(b)), 3, 2, 1),
    "max_pool_same": lambda b: b.max_pool(image(b), 3, 1, 1),
    "max_pool_ceil": lambda b: b.max_pool(image(b), 3, 2, 0, ceil=True),
    "average_pool": lambda b: b.average_pool(image(b), 2),
    "average_pool_same": average_pool(3, 1, (1, 1, 1, 1)),
    "average_pool_counting_pads": average_pool(3, 1, (1, 1, 1, 1), count_include_pad=1),
    "average_pool_padded": average_pool(3, 2, (1, 1, 1, 1)),
    "average_pool_padded_counting": average_pool(3, 2, (1, 1, 1, 1), count_include_pad=1),
    "average_pool_ceil": average_pool(3, 2, (0, 0, 0, 0), ceil_mode=1),
    "average_pool_lopsided": average_pool(4, 3, (2, 1, 0, 1)),
    "global_average_pool": lambda b: b.global_average_pool(image(b)),
    "global_max_pool": lambda b: b.op("GlobalMaxPool", [image(b)])[0],
    "squeeze_excite": lambda b: b.squeeze_excite(image(b), 3, gate="hard_sigmoid"),
    "conv_transpose_bn_relu": lambda b: b.relu(b.batch_norm(b.conv_transpose(image(b), 4, 2))),
    "conv_read_twice": read_twice,
    "batch_norm_alone": lambda b: b.batch_norm(image(b)),
    "batch_norm_relu_conv": lambda b: b.conv(b.relu(b.batch_norm(image(b))), 4, 3),
    "batch_norm_of_features": lambda b: b.batch_norm(b.input((2, 10))),
    "layer_norm": lambda b: b.layer_norm(tokens(b)),
    "layer_norm_of_image": lambda b: b.layer_norm(b.transpose(image(b), (0, 2, 3, 1))),
    "instance_norm": lambda b: b.op("InstanceNormalization", [image(b), b.weight((6,)), b.weight((6,))])[0],
    "instance_norm_of_groups": lambda b: b.op("InstanceNormalization", [tokens(b), b.weight((10,)), b.weight((10,))])[0],
    "conv_of_sequence": lambda b: b.relu(b.op("Conv", [tokens(b), b.weight((4, 10, 3)), b.weight((4,))], {"pads": (1, 1)})[0]),
    "strided_conv_of_sequence": lambda b: b.op(
        "Conv", [tokens(b), b.weight((4, 10, 3))], {"pads": (2, 0), "strides": (2,), "dilations": (2,)})[0],
    "depthwise_conv_of_sequence": lambda b: b.op(
        "Conv", [tokens(b), b.weight((10, 1, 3))], {"pads": (1, 1), "group": 10})[0],
    "lrn": lambda b: b.op("LRN", [image(b)], {"size": 5, "alpha": 0.01, "beta": 0.75, "bias": 1.0})[0],
    "softmax": lambda b: b.softmax(tokens(b)),
    "softmax_of_channels": lambda b: b.softmax(image(b), axis=1),
    "softmax_of_width": lambda b: b.softmax(b.conv(image(b), 4, 1), axis=3),
    "log_softmax": lambda b: b.op("LogSoftmax", [tokens(b)], {"axis": -1})[0],
    "relu": unary("Relu"),
    "sigmoid": unary("Sigmoid"),
    "tanh": unary("Tanh"),
    "hard_swish": unary("HardSwish"),
    "hard_swish_in_two": gated,
    "hard_sigmoid": lambda b: b.hard_sigmoid(image(b)),
    "hard_sigmoid_default": unary("HardSigmoid"),
    "leaky_relu": lambda b: b.leaky_relu(image(b)),
    "elu": unary("Elu"),
    "exp": unary("Exp"),
    "log": positive_unary("Log"),
    "sqrt": positive_unary("Sqrt"),
    "reciprocal": positive_unary("Reciprocal"),
    "neg": unary("Neg"),
    "abs": unary("Abs"),
    "floor": unary("Floor"),
    "ceil": unary("Ceil"),
    "round": unary("Round"),
    "sin": unary("Sin"),
    "cos": unary("Cos"),
    "sign": unary("Sign"),
    "swish": unary("Swish"),
    "softplus": unary("Softplus"),
    "mish": unary("Mish"),
    "prelu": with_weight("PRelu", 6, 1, 1),
    "gelu": lambda b: b.gelu(tokens(b)),
    "gelu_in_another_order": erf_gelu,
    "clip": lambda b: b.clip(image(b), -0.5, 0.7),
    "clip_to_one": lambda b: b.clip(image(b), 0.0, 1.0),
    "clip_to_six": lambda b: b.clip(image(b), 0.0, 6.0),
    "clip_around_zero": lambda b: b.clip(image(b), -1.0, 1.0),
    "cast": lambda b: b.op("Cast", [b.op("Cast", [b.mul(image(b), b.constant(9.0, dtype="float32"))], {"to": 6})[0]],
                           {"to": 1})[0],
    "clip_below": lambda b: b.op("Clip", [image(b), b.constant(-0.3, dtype="float32")])[0],
    "add": lambda b: b.add(image(b), image(b)),
    "add_relu": lambda b: b.relu(b.add(image(b), image(b))),
    "add_of_layouts": lambda b: b.add(b.conv(image(b), 6, 1), b.mul(b.conv(image(b), 6, 1), image(b))),
    "add_channels": with_weight("Add", 6, 1, 1),
    "mul_channels": with_weight("Mul", 1, 6, 1, 1),
    "mul_map": with_weight("Mul", 1, 1, 11, 14),
    "sub": with_weight("Sub", 11, 14),
    "div": lambda b: b.div(image(b), b.op("Exp", [image(b)])[0]),
    "div_of_scalar": lambda b: b.div(b.constant(3.0, dtype="float32"), b.op("Exp", [image(b)])[0]),
    "pow": lambda b: b.op("Pow", [b.op("Exp", [image(b)])[0], b.constant(1.5, dtype="float32")])[0],
    "max": with_weight("Max", 6, 11, 14),
    "min": lambda b: b.op("Min", [image(b), image(b)])[0],
    "sum_of_three": lambda b: b.op("Sum", [image(b), image(b), image(b)])[0],
    "broadcast_lower_rank": lambda b: b.add(b.conv(image(b), 6, 1), b.input((14,))),
    "broadcast_plane": lambda b: b.mul(b.conv(image(b), 6, 1), b.sigmoid(b.input((11, 14)))),
    "linear": lambda b: b.linear(b.input((2, 7)), 5),
    "linear_relu": lambda b: b.relu(b.linear(b.input((1, 7)), 5)),
    "linear_of_tokens": lambda b: b.linear(tokens(b), 5),
    "linear_of_image": lambda b: b.linear(b.transpose(image(b), (0, 2, 3, 1)), 5),
    "gemm_untransposed": lambda b: b.op("Gemm", [b.input((2, 7)), b.weight((7, 5)), b.weight((1, 5))],
                                        {"alpha": 0.5, "beta": 2.0})[0],
    "gemm_transposed_input": lambda b: b.op("Gemm", [b.input((7, 2)), b.weight((7, 5))], {"transA": 1})[0],
    "gemm_of_two": lambda b: b.op("Gemm", [b.input((3, 7)), b.input((5, 7))], {"transB": 1})[0],
    "matmul": lambda b: b.matmul(b.input((2, 3, 4, 5)), b.input((2, 3, 5, 6))),
    "matmul_broadcast": lambda b: b.matmul(b.input((2, 3, 4, 5)), b.input((5, 6))),
    "matmul_constant_left": lambda b: b.matmul(b.weight((4, 10)), tokens(b)),
    "matmul_batched_weight": lambda b: b.matmul(b.input((3, 4, 5)), b.weight((3, 5, 6))),
    "attention": lambda b: b.attention(tokens(b), 3),
    "concat": lambda b: b.concat([b.conv(image(b), 4, 1), image(b)]),
    "concat_height": lambda b: b.concat([image(b), b.relu(image(b))], axis=2),
    "split": lambda b: b.split(image(b), (3, 3)),
    "split_uneven": lambda b: b.split(image(b), (1, 5)),
    "split_tokens": lambda b: b.split(tokens(b), (4, 4, 4), axis=-1),
    "slice": lambda b: b.slice(image(b), [1, -9], [5, -1], [1, 3]),
    "pad": lambda b: b.pad(image(b), (0, 1, 2, 3, 0, 0, 1, 0)),
    "pad_value": lambda b: b.op("Pad", [image(b), b.constant([0, 0, 1, 1, 0, 0, 1, 1]), b.constant(2.5, dtype="float32")])[0],
    "pad_reflect": lambda b: b.op("Pad", [image(b), b.constant([0, 0, 1, 1, 0, 0, 1, 1])], {"mode": "reflect"})[0],
    "gather": lambda b: b.op("Gather", [tokens(b), b.constant([3, 1, 1], dtype="int64")], {"axis": 1})[0],
    "class_token": class_token,
    "expand": lambda b: b.op("Expand", [b.input((1, 6, 1, 1)), b.constant([1, 6, 3, 4], dtype="int64")])[0],
    "tile": lambda b: b.op("Tile", [image(b), b.constant([1, 2, 1, 3], dtype="int64")])[0],
    "transpose_plain": lambda b: b.transpose(tokens(b), (0, 2, 1)),
    "transpose_height_width": lambda b: b.transpose(b.conv(image(b), 4, 1), (0, 1, 3, 2)),
    "flatten_linear": lambda b: head(b),
    "flatten_dropout_linear": lambda b: head(b, dropout=True),
    "flatten_and_show": lambda b: b.flatten(b.conv(image(b), 4, 3)),
    "squeeze": lambda b: b.op("Squeeze", [b.global_average_pool(image(b)), b.constant([2, 3], dtype="int64")])[0],
    "unsqueeze": lambda b: b.op("Unsqueeze", [tokens(b), b.constant([1], dtype="int64")])[0],
    "channel_shuffle": lambda b: b.channel_shuffle(b.conv(image(b), 6, 1), 3),
    "tokens_and_back": to_tokens_and_back,
    "swin_merge": swin_merge,
    "swin_windows": rolled,
    "mixed_layouts": mixed_layouts,
    "depth_to_space": pixel_shuffle("DCR"),
    "pixel_shuffle": pixel_shuffle("CRD"),
    "space_to_depth": lambda b: b.op("SpaceToDepth", [image(b, 6, 10, 14)], {"blocksize": 2})[0],
    "resize_nearest": resize("nearest", "asymmetric", (22, 28), nearest_mode="floor"),
    "resize_nearest_half_pixel": resize("nearest", "half_pixel", (33, 20), nearest_mode="round_prefer_ceil"),
    "resize_linear": resize("linear", "half_pixel", (22, 21)),
    "resize_linear_corners": resize("linear", "align_corners", (21, 30)),
    "resize_linear_asymmetric": resize("linear", "asymmetric", (21, 30)),
    "reduce_mean_maps": reduce("ReduceMean", (2, 3), 1),
    "reduce_mean_flat": reduce("ReduceMean", (2, 3), 0),
    "reduce_mean_channels": reduce("ReduceMean", (1,), 1),
    "reduce_sum": reduce("ReduceSum", (1, 3), 0),
    "reduce_max": reduce("ReduceMax", (2,), 1),
    "reduce_min": reduce("ReduceMin", (1,), 0),
    "reduce_prod": reduce("ReduceProd", (3,), 0),
    "reduce_l2_maps": reduce("ReduceL2", (2, 3), 1),
    "reduce_l2_channels": reduce("ReduceL2", (1,), 0),
    "reduce_l1": reduce("ReduceL1", (1, 3), 0),
    "reduce_sum_square": reduce("ReduceSumSquare", (2,), 1),
    "arg_max": lambda b: b.op("ArgMax", [image(b)], {"axis": 1, "keepdims": 0})[0],
    "arg_max_kept": lambda b: b.op("ArgMax", [image(b)], {"axis": 1, "keepdims": 1})[0],
    "identity": lambda b: b.op("Identity", [image(b)])[0],
    "output_of_input": lambda b: (b.input((1, 4, 5, 6)),),
}  # fmt: skip
