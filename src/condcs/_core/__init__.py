"""Layer 0: errors, arrays of any library, input checks, execution settings."""
