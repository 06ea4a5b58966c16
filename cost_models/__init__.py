"""Analytical cost models of LLM serving: what an iteration, a restore and a reload cost."""
