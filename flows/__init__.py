"""The flows a person can start, and the command line that starts them."""
