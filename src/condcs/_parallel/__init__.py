"""Calls spread over the processes of this machine or the workers of a Dask cluster.

Functions of condcs compute on threads. Those with much to do (resampling tests, pairwise matrices of series,
experiments) send it elsewhere if joblib says so::

    from dask.distributed import Client

    client = Client("tcp://127.0.0.1:8786")
    with joblib.parallel_config(backend="dask"):
        result = condcs.conditional_test(xp, yp, xq, yq, n_resamples=5000, rng=0)

``backend="loky", n_jobs=4`` does the same with four processes of this machine, and ``--dask tcp://127.0.0.1:8786`` on
the command line. Two commands start a cluster on one machine (``pip install 'condcs[dask]'``)::

    dask scheduler --host 127.0.0.1 --port 8786
    dask worker tcp://127.0.0.1:8786 --nworkers auto --nthreads 1

The answer is the same wherever it is computed: random numbers are drawn by the caller, work is cut into the same
pieces, and a piece is computed on one thread. Dask gives the pieces of a lost worker to another one. Whoever reaches
a cluster can run any code on it: keep it to machines that you trust.
"""
