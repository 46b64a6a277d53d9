"""Access to the elements of a page that lexbor parsed: attributes, children and ancestors.

Elements are identified by `mem_id`, because selectolax compares two nodes by the HTML that they contain.
"""

from collections.abc import Collection, Iterator

from selectolax.lexbor import LexborNode


def attribute(node: LexborNode, name: str) -> str:
    """Return the value of an attribute, or "" if the attribute is missing or has no value."""
    return node.attributes.get(name) or ""


def children_backwards(node: LexborNode) -> list[LexborNode]:
    """Return the children of a node, the last one first."""
    children, child = list[LexborNode](), node.last_child
    while child is not None:
        children.append(child)
        child = child.prev
    return children


def ancestors(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the elements around a node, the innermost first."""
    ancestor = node.parent
    while ancestor is not None:
        yield ancestor
        ancestor = ancestor.parent


def is_inside(node: LexborNode, ids: Collection[int]) -> bool:
    """Return whether one of the elements around a node has one of these `mem_id`s."""
    return any(ancestor.mem_id in ids for ancestor in ancestors(node))
