"""What Prefect can be told to run, and when."""
