"""The display of a build, while it runs and afterwards: pages in Prefect's dashboard, bars in the terminal."""
