"""The steps on documents, executed: a class for each, and in `registry` the tuple of all."""
