"""Policy research for failure recovery in distributed LLM serving."""

__version__ = "0.1.0"
