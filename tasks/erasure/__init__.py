"""Erasure: what somebody asks to have removed is found, in a corpus and in what was made with it, and certified.

`asked` reads a request, `found` finds the documents that it is about, `dependents` what else has them, and
`certificate` writes the deny list that builds obey, and what was done.
"""
