"""The command line: `cli` is the program, and each command has a module of its name.

Slow imports are inside the functions that need them, on lines marked with `# late`, so that help, version and
completion are fast. `arguments` has shared arguments, `terminal` has printing and formatting (with `inert_text`
and `inert_console`), and `server_runs` lists the runs of a Prefect server.
"""
