"""Fault schedules: files of faults, read, generated, described and mapped to the workers of a replay."""
