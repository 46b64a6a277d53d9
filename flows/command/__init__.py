"""The command line: `cli` has the commands, the other files what they do and print."""
