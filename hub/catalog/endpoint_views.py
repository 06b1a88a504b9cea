"""Views by their names: each says which servers an endpoint of the hub shows, and is the end of its path.

    /mcp                         everything: all servers of the user
    /mcp/files                   one server, under its own names and URIs
    /mcp/@shop-1f3a5c07          a project: everything, and the servers of the project
    /mcp/~coding                 a profile: a choice of everything, perhaps under other names
    /mcp/@shop-1f3a5c07~coding   a profile on top of a project; no endpoint, since projects and labels choose it

A server of a project runs under a name that no server of the user can have, such as "db@shop-1f3a5c07". These names,
and those of views, are made and read here only. What a view shows is made by `hub.routing.live_catalog`.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.server_names import suggest_id

_MARK: Final = "@"
"""First character of a project's name, and of no server's."""
PROFILE_MARK: Final = "~"
"""First character of a profile's name in paths; in the name of no server and no project."""
_MAX_FOLDER: Final = 16
"""Characters of a folder's name in that of its project."""


class View(Struct, frozen=True):
    """The part of the hub that one endpoint shows. Hashable. Made by `server_view`, `project_view`, `profile_view` and
    `home_of`."""

    name: str
    """Last segment of the endpoint's path; "": everything."""
    server: str = ""
    """The only server shown, by the name it runs under; "": any number of servers."""
    search: bool = False
    """Tools to find and call the others are shown in their place."""
    profile: str = ""
    """The profile that chooses among them; "": none does."""
    audience: str = ""
    """The callers to whom rules leave this much of it (`hub.rules.policy`); "": no rule takes anything away."""

    @property
    def path(self) -> str:
        """Path of the endpoint."""
        return f"/mcp/{self.name}" if self.name else "/mcp"

    @property
    def base(self) -> "View":
        """The place of the view, which its profile chooses from: everything, a project or one server."""
        if not (self.profile or self.search or self.audience):
            return self
        return View(self.name.partition(PROFILE_MARK)[0], self.server)

    @property
    def key(self) -> str:
        """A name of its own, by which things can be kept for it."""
        more = (*(["search"] if self.search else []), *([self.audience] if self.audience else []))
        return f"{self.name}?{'&'.join(more)}" if more else self.name


EVERYTHING: Final = View("")


def server_view(name: str) -> View:
    """The view of the one server that runs as `name`."""
    return View(name, name)


def project_view(root: Path) -> View:
    """The view of the project in the folder `root`."""
    digest = sha256(str(root).encode(errors="surrogateescape")).hexdigest()
    return View(f"{_MARK}{suggest_id(root.name, _MAX_FOLDER)}-{digest[:8]}")


def profile_view(name: str, base: View = EVERYTHING) -> View:
    """The view of the profile `name` on top of `base`, which is everything or a project."""
    return View(f"{base.name}{PROFILE_MARK}{name}", profile=name)


def home_of(name: str) -> tuple[str, View]:
    """Split the name under which a server runs: its name in the configuration, and the project it belongs to, or
    `EVERYTHING`."""
    own, mark, project = name.partition(_MARK)
    return own, View(mark + project)
