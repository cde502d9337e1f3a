"""LitePred (Feng et al., NSDI 2024): what of its evaluation can be done with measurements of kernels at hand."""
