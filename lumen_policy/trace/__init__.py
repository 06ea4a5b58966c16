"""Request traces: the table every replay starts from, its readers, its generator and its transformations."""
