"""Members of search spaces as papers and their code print them: space and name to JSON parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PUBLISHED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    # Tan and Le 2019, Table 1.
    ("bignas", "efficientnet_b0"): {
        "resolution": 224, "stem": 32, "head": 1280,
        **{f"width{stage + 1}": width for stage, width in enumerate((16, 24, 40, 80, 112, 192, 320))},
        **{f"depth{stage + 1}": depth for stage, depth in enumerate((1, 2, 2, 3, 3, 4, 1))},
        **{f"kernel{stage + 1}": kernel for stage, kernel in enumerate((3, 3, 5, 3, 5, 5, 3))},
    },
    # timm's fbnetv3_b.
    ("fbnet_v3", "fbnet_v3_b"): {
        "resolution": 224, "stem": 16, "width1": 16, "depth1": 2, "kernel1": 3, "width7": 224, "kernel7": 5,
        **{f"width{stage + 2}": width for stage, width in enumerate((24, 40, 72, 120, 184))},
        **{f"depth{stage + 2}": depth for stage, depth in enumerate((4, 5, 5, 6, 6))},
        **{f"kernels{stage + 2}": kernels for stage, kernels in enumerate(([5, 5], [5, 5], [5, 3], [3, 5], [3, 5]))},
        **{f"expansion{stage + 2}_first": expansion for stage, expansion in enumerate((4, 5, 5, 5, 6))},
        **{f"expansion{stage + 2}_rest": expansion for stage, expansion in enumerate((2, 3, 3, 3, 4))},
    },
    # timm's resnet50d.
    ("ofa_resnet", "resnet50d"): {
        "resolution": 224, "stem_residual": 1, "stem_widths": [1.0, 1.0], "extra_blocks": [1, 2, 2, 1],
        "widths": [1.0] * 4, "expansions": [0.25] * 18,
    },
    # Touvron et al. 2021.
    ("autoformer", "deit_tiny_16"): {"width": 192, "depth": 12, "heads": [3] * 14, "mlp_ratios": [4.0] * 14},
}  # fmt: skip
