"""What a build shows while it runs and afterwards: artifacts, bars, plots, the page of the report."""
