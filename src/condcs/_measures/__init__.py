"""Layer 2: interaction matrices, contrasts, and every divergence of the paper."""
