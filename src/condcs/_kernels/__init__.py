"""Layer 1: kernels, bandwidth rules, tiled row sums."""
