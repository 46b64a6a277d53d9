"""Published corpora, opened by a URL or a recipe: their manifests, files, tables, and documents by id."""
