"""Decisions as plain functions: compiled by the kernel, called as they are by the twin and a gateway."""
