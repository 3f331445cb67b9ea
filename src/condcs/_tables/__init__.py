"""Tables from files, pipes and memory: a sample within a memory budget, types of columns, arrays for the kernels."""
