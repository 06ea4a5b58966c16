"""The exact replay: data contract, random draws, kernel and engine."""
