"""Fields of log records: what a record is about, as its task or itself says (`hub.link.log_context`)."""

import logging
from collections.abc import Mapping
from typing import Final

from hub.link.log_context import SUBJECT

FIELDS: Final = ("upstream", "ref", "host", "method", "tool", "error_type", "trace_id", "pid")
_KEPT: Final = "hubd_fields"
FIELD_CHARS: Final = 200


def fields_of(record: logging.LogRecord) -> Mapping[str, str]:
    """The fields of a record, by name. They are found when it is first asked for them, in the task that made it."""
    own = record.__dict__
    if _KEPT not in own:
        subject = SUBJECT.get()
        found = {} if subject is None else subject.log_fields()
        found |= {name: str(own[name]) for name in FIELDS if name in own}
        own[_KEPT] = {name: found[name][:FIELD_CHARS] for name in FIELDS if found.get(name)}
    fields: Mapping[str, str] = own[_KEPT]
    return fields
