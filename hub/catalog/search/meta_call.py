"""Meta call: the call of a tool that a call of `hub__call_tool` is. Pure."""

from typing import Final

from msgspec import Raw, Struct

from hub.catalog.search.answers import one_line
from hub.catalog.search.meta_tools import FIND_TOOLS, META_TOOLS
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import peek_object, peek_str, read_object
from hub.wire.value_limits import TooManyItems, refuse_too_many_items

_OBJECT: Final = ord("{")


class MetaCall(Struct, frozen=True):
    """The call that a meta call asks for."""

    name: str
    """The tool, as hosts call it."""
    arguments: Raw


class BadMetaCall(Exception):
    """A meta call that says too little, or too much; the text tells a model how to mend it."""


def read_meta_call(given: Raw | None) -> MetaCall:
    """The call that a meta call with the arguments `given` is.

    Raises:
        BadMetaCall: it is none.
    """
    members = peek_object(given)
    name = peek_str(members.get("name"))
    if not name:
        raise BadMetaCall(f'say which tool to call: "name", as {FIND_TOOLS} gave it.')
    if name in META_TOOLS:
        raise BadMetaCall(f"{name} is called directly.")
    arguments, text = members.get("arguments"), members.get("arguments_json")
    if (arguments is None) == (text is None):
        which = "not both" if text is not None else "{} if it takes none"
        raise BadMetaCall(f'give its arguments either as "arguments" or, as JSON text, as "arguments_json", {which}.')
    if text is not None:
        return MetaCall(name, _read_json(text))
    if arguments is None or memoryview(arguments)[0] != _OBJECT:
        raise BadMetaCall('"arguments" is an object; JSON text goes into "arguments_json".')
    return MetaCall(name, arguments)


def _read_json(given: Raw) -> Raw:
    """The arguments in a text, in no other form than if they had been sent as they are."""
    text = peek_str(given)
    if text is None:
        raise BadMetaCall('"arguments_json" is a text: the arguments as JSON.')
    try:
        refuse_too_many_items(Raw(text.encode()), '"arguments_json"')
        return read_object(text)
    except (TooManyItems, *READ_ERRORS) as error:
        raise BadMetaCall(f'"arguments_json" is no JSON object: {one_line(str(error), 200)}.') from None
