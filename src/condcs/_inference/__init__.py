"""Layer 3: nulls, p-values, and where the conditionals differ."""
