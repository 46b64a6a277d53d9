"""The command line: `cli` is the program, and each command a file of its name, with all that it does.

What takes time to import is imported inside the functions that need it, on a line that says `# late`, so that help,
version and completion take a moment. `arguments` has the arguments that many commands take, `terminal` what is
printed to and how (`inert_text`, `inert_console`), and `server_runs` what a Prefect server knows of runs.
"""
