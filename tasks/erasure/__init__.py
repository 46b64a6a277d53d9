"""Removal requests: find the requested documents in a corpus and in other places, and certify their removal.

`removal_request` reads a request, `requested_documents` finds its documents, `dependents` finds other places with
these documents, and `certified_removal` writes the deny list for builds and the `removal_certificate`.
"""
