"""Text out of web pages, wikitext and LaTeX."""
