"""The exported policy: document, schema, reader, checks against a cluster, test vectors."""
