"""Tables from files and pipes: formats, a sample within a memory budget, types of columns, arrays for the kernels."""
