"""The interface for Python programs, `import zyda_flows as zyda`.

`builds` starts a build or a check in a process of its own, whose program is `build_process`. `corpus` opens a
published corpus in this process. `recipes` takes a recipe as a path, a URL or a mapping.
"""
