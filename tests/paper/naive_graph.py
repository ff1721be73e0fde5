"""The backdoor criterion by walking along all paths. This file imports nothing from the package.

A graph is a dictionary: node -> list of its parents.
"""


def descendants(parents, node):
    """A node and everything that it causes."""
    found = {node}
    while True:
        more = {child for child, above in parents.items() if set(above) & found} - found
        if not more:
            return found
        found |= more


def backdoor_paths(parents, action, target):
    """Every path without repetition from the action to the target that begins with an arrow into the action."""
    children = {node: [child for child, above in parents.items() if node in above] for node in parents}
    paths = []

    def extend(path):
        if path[-1] == target:
            paths.append(path)
            return
        for neighbour in [*parents[path[-1]], *children[path[-1]]]:
            if neighbour not in path:
                extend([*path, neighbour])

    for parent in parents[action]:
        extend([action, parent])
    return paths


def backdoor(parents, action, target, given):
    """Assumption 3: no member of `given` is caused by the action, and every backdoor path is blocked.

    A path is blocked by a member of `given` that is no collider on it, or by a collider without a descendant in `given`.
    """
    if set(given) & descendants(parents, action):
        return False
    for path in backdoor_paths(parents, action, target):
        blocked = False
        for before, node, after in zip(path, path[1:], path[2:], strict=False):
            if before in parents[node] and after in parents[node]:
                closed = not descendants(parents, node) & set(given)
            else:
                closed = node in given
            blocked = blocked or closed
        if not blocked:
            return False
    return True
