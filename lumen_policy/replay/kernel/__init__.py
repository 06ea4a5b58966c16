"""The replay kernel: compiled by numba, driven by ``lumen_policy.replay.engine``."""
