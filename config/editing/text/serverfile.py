"""A host's file of MCP servers, whatever its format: its entries, and the three changes that are ever made to it.

A change is worked out as text (`jsonc`, `toml`, `yaml`) and then believed only if the changed text reads as the
document that was meant; otherwise it is refused. Pure.
"""

import copy
from contextlib import suppress
from typing import Any

from config.editing.text import jsonc, toml, yaml
from config.editing.text.change import Edit, EditRefused
from config.editing.text.file_shape import Format, Shape


def read(shape: Shape, text: str) -> Any:
    """The document, not to be changed. Raises: EditRefused, if it cannot be read."""
    return jsonc.read(text, shape.root) if shape.format == "json" else _MODULES[shape.format].read(text)


def entries(shape: Shape, text: str) -> dict[str, Any]:
    """Its entries by name, in order; those that are no mappings, too.
    Raises: EditRefused, if it cannot be read, or there is something else where the entries should be."""
    return _entries(shape, read(shape, text))


def insert(shape: Shape, text: str, key: str, value: dict[str, Any]) -> Edit:
    """Put in an entry. Raises: EditRefused, if it is there already, or it cannot be done for certain."""
    document = read(shape, text)
    if key in _entries(shape, document):
        raise EditRefused(f'"{key}" is there already')
    if shape.format == "yaml":
        edit = yaml.insert(text, shape.root, key, value, listed=shape.listed)
    else:
        edit = _MODULES[shape.format].insert(text, shape.root, key, value)
    return _check(shape, text, edit, _with(shape, document, key, value))


def remove(shape: Shape, text: str, key: str, *, comments: bool = True) -> Edit:
    """Take an entry out; with `comments`, in JSON, also those that belong to it.
    Raises: EditRefused, if it is not there, or it cannot be done for certain."""
    if shape.format == "json":
        edit = jsonc.remove(text, shape.root, key, comments=comments)
    else:
        edit = _MODULES[shape.format].remove(text, shape.root, key)
    return _check(shape, text, edit, without(shape, read(shape, text), key))


def assign(shape: Shape, text: str, key: str, setting: str, value: Any, *, table: str = "") -> Edit:
    """Let one setting of an entry be `value`, a plain one. `table`: that of its tables in which the setting stands.
    Raises: EditRefused, if the entry is not there, or it cannot be done for certain."""
    document = read(shape, text)
    entry = _entries(shape, document).get(key)
    if not isinstance(entry, dict):
        raise EditRefused(f'there is no "{key}"')
    if table and not isinstance(entry.get(table), dict):
        raise EditRefused(f'"{key}" has no table "{table}"')
    below = (table,) if table else ()
    edit = _MODULES[shape.format].assign(text, (*shape.root, key, *below), setting, value)
    changed = _open(shape, document)
    place = _entries(shape, changed)[key]
    (place[table] if table else place)[setting] = value
    return _check(shape, text, edit, changed)


def snippet(shape: Shape, key: str, value: dict[str, Any]) -> str:
    """A text for people to paste where a change was refused."""
    if shape.format == "yaml":
        return yaml.render(shape.root, key, value, listed=shape.listed)
    if shape.format == "toml":
        return toml.render(shape.root, key, value)
    return jsonc.render(jsonc.nest(shape.root, key, value), "  ")


def without(shape: Shape, document: Any, key: str) -> Any:
    """The document as it is without the entry; if it was the last one, nothing is said about where entries stand."""
    document = _open(shape, document)
    if shape.listed:
        (root,) = shape.root
        document[root] = [item for item in document.get(root) or [] if _name(item) != key]
    else:
        _entries(shape, document).pop(key, None)
    return plain(shape, document)


def plain(shape: Shape, document: Any) -> Any:
    """The document without empty containers where the entries should be: to a host they say the same."""
    document = _open(shape, document)
    for depth in range(len(shape.root), 0, -1):
        holder = document
        for name in shape.root[: depth - 1]:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and not holder.get(shape.root[depth - 1], True):
            del holder[shape.root[depth - 1]]
    return document


def _open(shape: Shape, document: Any) -> Any:
    """A copy in which the entries, and what stands on the way to them, may be changed; all else is shared."""
    document = holder = copy.copy(document)
    for name in shape.root[:-1]:
        if not isinstance(holder, dict) or name not in holder:
            return document
        holder[name] = holder = copy.copy(holder[name])
    if isinstance(holder, dict) and shape.root[-1] in holder:
        holder[shape.root[-1]] = copy.deepcopy(holder[shape.root[-1]])
    return document


def _with(shape: Shape, document: Any, key: str, value: dict[str, Any]) -> Any:
    document = _open(shape, document)
    if shape.listed:
        (root,) = shape.root
        document[root] = [*(document.get(root) or []), value]
        return document
    holder = document
    for name in shape.root:
        holder[name] = holder = holder.get(name) or {}
    holder[key] = value
    return document


def _check(shape: Shape, text: str, edit: Edit, meant: Any) -> Edit:
    with suppress(EditRefused):
        if plain(shape, read(shape, edit.apply(text))) == plain(shape, meant):
            return edit
    raise EditRefused("it is written in a way that cannot be edited for certain")


def _entries(shape: Shape, document: Any) -> dict[str, Any]:
    """The mapping itself where there is one, so that it can be changed."""
    found = document
    for name in shape.root:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return {}
    if shape.listed and isinstance(found, list):
        return {name: item for item in found if (name := _name(item)) is not None}
    if shape.listed or not isinstance(found, dict):
        raise EditRefused(f'"{".".join(shape.root)}" is not a {"list" if shape.listed else "mapping"} of servers')
    return found


def _name(item: Any) -> Any:
    """The name of an item of a list; None if it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


_MODULES: dict[Format, Any] = {"json": jsonc, "toml": toml, "yaml": yaml}
