"""Cost models measured: microbenchmarks, stored samples, operator tables, and the fit of their times."""
