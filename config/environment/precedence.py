"""The environment of a hub: what it was started with, and over that the variables of `hubd.env`. Pure.

Hosts start the hub with few variables, each with others, so the file wins, whoever starts it. Only what says where the
file and the hub's sockets are is the environment's own: of `HOME`, `HUBD_*` and `XDG_*` the file has a say where the
environment has none.
"""

from collections.abc import Iterator, Mapping

KEPT_PREFIXES = ("HUBD_", "XDG_")


def is_kept(name: str) -> bool:
    """True if the environment's own value of a variable wins over that of the file."""
    return name == "HOME" or name.startswith(KEPT_PREFIXES)


def joined(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """`environ` with the variables of the file, `own`."""
    return {**environ, **{name: value for name, value in own.items() if name not in environ or not is_kept(name)}}


def for_this_process(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a joined environment that the hub itself may take over: those that do not move its files."""
    return {name: value for name, value in environ.items() if not is_kept(name)}


class CurrentEnvironment(Mapping[str, str]):
    """The environment that servers are started with: another one after each reload."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"<CurrentEnvironment of {len(self._values)} variables>"

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, values: Mapping[str, str]) -> None:
        """Let these be the variables from now on. What runs keeps what it has."""
        self._values = dict(values)
