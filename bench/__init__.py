"""`make bench`: speed and memory against their targets."""
