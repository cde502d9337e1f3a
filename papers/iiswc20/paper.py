"""The figures that Ganesan et al. print."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STATIC_R2 = 0.13
"""Fig. 8."""

SELECTIONS: Mapping[str, str] = MappingProxyType(
    {"random": "RS", "mutual_information": "MIS", "spearman": "SCCS", "prediction_error": "least error (ours)"}
)
"""Selection to what the paper calls it."""

SELECTION_R2: Mapping[str, float] = MappingProxyType({"random": 0.9125, "mutual_information": 0.944, "spearman": 0.943})
"""§IV-B, Fig. 9: signatures of 10 networks."""

RANDOM_MEAN_R2, RANDOM_WORST_R2 = 0.93, 0.875
"""§IV-C, Fig. 10: 100 random signatures."""

CLUSTERS = ("fast", "medium", "slow")

CLUSTER_MEAN_MS: Mapping[str, float] = MappingProxyType({"fast": 50.0, "medium": 115.0, "slow": 235.0})
"""§II-C, Fig. 4."""

TABLE_I: Mapping[tuple[str, str], float] = MappingProxyType(
    {
        ("random", "fast"): 0.912, ("random", "medium"): 0.964, ("random", "slow"): 0.975,
        ("mutual_information", "fast"): 0.916, ("mutual_information", "medium"): 0.973, ("mutual_information", "slow"): 0.967,
        ("spearman", "fast"): 0.949, ("spearman", "medium"): 0.976, ("spearman", "slow"): 0.97,
    }
)  # fmt: skip

COLLABORATIVE: Mapping[int, str] = MappingProxyType({10: "> 0.9", 50: "> 0.95"})
"""§V-B, Fig. 12: devices to R² in each case of 10 to 30 % of the networks."""

FIGURE_13_R2 = 0.98
"""§V-C: 20 measurements of each of 50 devices, on Redmi Note 5 Pro."""

FIGURE_13_PHONE = "Redmi_Note5_Pro"
