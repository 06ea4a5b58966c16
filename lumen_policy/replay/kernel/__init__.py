"""The replay kernel: compiled by ``lumen_policy.native``, driven by ``lumen_policy.replay.engine``."""
