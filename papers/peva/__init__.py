"""Li et al. (PEVA 2024): what its published measurements say, and its evaluation beside ours."""
