"""The interface for Python programs, `import zyda_flows as zyda`.

`builds` starts a build or a check in a separate process, whose program is `build_process`. `corpus` opens a
published corpus in the current process. `recipes` loads a recipe from a path, a URL or a mapping.
"""
