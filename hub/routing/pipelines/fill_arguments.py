"""Values of one run of a pipeline, and the arguments of a step, with values in place of references. Pure.

Texts are split as the configuration has them; what comes in is never looked at for references. How much comes in is
bounded here, whatever hosts send and servers return.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Raw

from config.loading.pipeline_references import INPUT, TEXT, StepReference, split_text
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import detach, peek_array, peek_object, peek_str, raw
from hub.wire.total_item_limit import SMALL_BYTES, TooManyItems, refuse_too_many_items

MAX_VALUE_BYTES: Final = 1 << 20
"""Size up to which a result can be inserted, and of the arguments of a pipeline."""
MAX_FILLED_BYTES: Final = 4 << 20
"""Size of all that is inserted into the arguments of one step."""
_TEXT: Final = ord('"')
_LIST: Final = ord("[")
_MAX_DIGITS: Final = 6


class MissingValue(Exception):
    """There is nothing to put in place of a reference; the text says why."""


class PipelineValues:
    """The values that references of one run may lead to."""

    def __init__(self, given: Raw) -> None:
        """`given`: the arguments of the pipeline, at most `MAX_VALUE_BYTES`."""
        self._values: dict[str, Raw] = {INPUT: given}
        """By the root of references, the arguments and the results of steps."""
        self._large: dict[str, int] = {}
        """Sizes of results that cannot be inserted."""
        self._opened: dict[tuple[str, ...], Mapping[str, Raw] | list[Raw]] = {}
        """What was opened on the way to a value, so that each is opened once."""

    def keep(self, id: str, result: Raw) -> None:
        """Keep the result of a step, for later ones."""
        if (size := memoryview(result).nbytes) > MAX_VALUE_BYTES:
            self._large[id] = size
        else:
            self._values[id] = detach(result)

    def fill(self, args: Mapping[str, Any]) -> Raw:
        """The arguments of a step. Raises MissingValue."""
        return raw(_Filling(self).fill(args))

    def find(self, reference: StepReference) -> Raw:
        """The value that a reference leads to. Raises MissingValue."""
        root, path = reference
        if (size := self._large.get(root)) is not None:
            raise MissingValue(
                f"the result of {root} has {size} bytes, and {MAX_VALUE_BYTES} are the most for {reference}"
            )
        found = self._values[root]
        at: tuple[str, ...] = (root,)
        if root != INPUT:
            members = self._open(found, at, reference)
            if path[0] == TEXT:
                return _text_of(members, reference)
            path = ("structuredContent", *path[1:])
        for part in path:
            inner = self._open(found, at, reference)
            at = (*at, part)
            value: Raw | None = None
            if isinstance(inner, Mapping):
                value = inner.get(part)
            elif part.isdecimal() and len(part) <= _MAX_DIGITS and int(part) < len(inner):
                value = inner[int(part)]
            if value is None:
                raise MissingValue(f"there is no {reference}")
            found = value
        return found

    def _open(self, value: Raw, at: tuple[str, ...], reference: StepReference) -> Mapping[str, Raw] | list[Raw]:
        """The members or items of a value; none, if it is a plain one."""
        if (opened := self._opened.get(at)) is None:
            try:
                if memoryview(value).nbytes > SMALL_BYTES:
                    refuse_too_many_items(value, ".".join(at))
            except TooManyItems as error:
                raise MissingValue(f"cannot look for {reference}: {error}") from None
            is_list = memoryview(value)[0] == _LIST
            opened = peek_array(value, counted=True) if is_list else peek_object(value, counted=True)
            self._opened[at] = opened
        return opened


class _Filling:
    """The filling of the arguments of one step."""

    def __init__(self, values: PipelineValues) -> None:
        self._values = values
        self._left = MAX_FILLED_BYTES

    def fill(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.fill(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if not isinstance(value, str):
            return value
        parts = split_text(value)
        if len(parts) == 1 and isinstance(parts[0], StepReference):
            return self._find(parts[0])
        return "".join(part if isinstance(part, str) else _spell(self._find(part), part) for part in parts)

    def _find(self, reference: StepReference) -> Raw:
        found = self._values.find(reference)
        self._left -= memoryview(found).nbytes
        if self._left < 0:
            raise MissingValue(f"what is inserted has more than {MAX_FILLED_BYTES} bytes in all")
        return found


def _spell(value: Raw, reference: StepReference) -> str:
    """A value inside a text: a text as it is, anything else as JSON."""
    if memoryview(value)[0] != _TEXT:
        data = bytes(value)
        with suppress(*READ_ERRORS):  # too deep: as it came
            data = msgspec.json.format(data, indent=-1)
        return data.decode(errors="replace")
    if (text := peek_str(value)) is None:
        raise MissingValue(f"{reference} is a text that cannot be read")
    return text


def _text_of(members: Mapping[str, Raw] | list[Raw], reference: StepReference) -> Raw:
    """The text blocks of a result, joined. Raises MissingValue: it has none."""
    content = peek_array(members.get("content"), counted=True) if isinstance(members, Mapping) else []
    blocks = (peek_object(block, counted=True) for block in content)
    texts = [peek_str(block.get("text")) for block in blocks if peek_str(block.get("type")) == "text"]
    if not texts or None in texts:
        raise MissingValue(f"there is no {reference}: the result has no text that can be read")
    return raw("\n".join(text for text in texts if text is not None))
