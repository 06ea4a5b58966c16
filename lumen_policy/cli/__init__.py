"""The command line: thin commands over the library, one renderer."""
