"""Plain, slow re-statements of the twelve methods, to compare the fast ones with.

Nothing here imports ``tempora_tta.methods``: the mathematics is written a second time, sample by sample,
with the optimiser, the BatchNorm statistics and the filters spelled out.
"""
