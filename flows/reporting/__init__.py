"""The report of a corpus: its chapters, their plots, and how they are written as a page and as Markdown."""
