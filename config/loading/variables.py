"""`${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${file:path}` in configuration values. `$${` stands for a plain `${`.

In the strings of servers `${secret:NAME}`, `${credential:NAME}` and `${cmd:ARGV}` are not replaced here, but marked
(`config.secret_references`): their values are read when the server starts. So are the first two in arguments that a
profile fixes. A server's `${VAR}` that is not set is the secret of that name, if one is kept. Editors provide further
names: `${userHome}`, `${/}`, and in files of a project `${workspaceFolder}`.

An unset variable without a default is an error, never an empty string: a server started with an empty token fails in
ways that are hard to understand. As in a shell, the default is also used for a variable that is set but empty.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from config import base_directories
from config.environment.hubd_env import Assignment, NotReadable, assignments
from config.hub_paths import SECRETS_FILE
from config.safe_reading import read_plain
from config.secret_references import NUL, Malformed, Reference, mark_reference, read
from config.secrets.kept_secrets import read_secrets
from config.secrets.private_state_files import StateUnreadable

MAX_FILE_BYTES: Final = 1 << 16
MAX_FILES_BYTES: Final = 1 << 22
"""Bytes of all files that the references of one configuration file lead to."""
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inner>[^{}]*)\}|\$\{")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.S)
FORMS: Final = "${VAR}, ${VAR:-default}, ${env:VAR} or ${file:path}"
SERVER_FORMS: Final = f"{FORMS.replace(' or', ',')}, ${{secret:NAME}}, ${{credential:NAME}} or ${{cmd:ARGV}}"
FIXED_FORMS: Final = f"{FORMS.replace(' or', ',')}, ${{secret:NAME}} or ${{credential:NAME}}"
NO_NUL: Final = "holds a NUL character, which no program can be given"


class Unresolved(Exception):
    """A reference that leads nowhere. The text says which, and what to do, which may be a `remedy` to run."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class Missing(Unresolved):
    """A reference to what is not there, or cannot be read; it may lead somewhere later, with the same file."""


class Variables:
    """The variables and files that references may name, and the files that were read."""

    def __init__(self, environ: Mapping[str, str], directory: Path, *, project: Path | None = None) -> None:
        self.environ = environ
        self.directory = directory
        """The directory to which paths in `${file:path}` are relative: the configuration file's own."""
        self.files: dict[Path, bytes] = {}
        """The files that were read, and those that could not be, which have no content."""
        self._total = 0
        self._is_project = project is not None
        self._provided = {"userHome": os.path.expanduser("~"), "/": "/", "pathSeparator": "/"}
        if project is not None:
            self._provided |= {"workspaceFolder": str(project), "workspaceFolderBasename": project.name}

    def expand(self, text: str) -> str:
        """`text` with every reference replaced; what comes in is not looked at again.
        Raises: Missing, if a variable is not set, or a file cannot be read; Unresolved, if a reference is malformed."""
        return _REFERENCE.sub(self._replace, text) if "${" in text else text

    def expand_for_server(self, text: str) -> str:
        """`text` of a server's setting, likewise, with references to what is read later marked.
        Raises: Missing, Unresolved, as `expand`."""
        if NUL in text:
            raise Unresolved(NO_NUL)
        return _REFERENCE.sub(self._replace_or_mark, text) if "${" in text else text

    def expand_fixed(self, text: str, given: list[str]) -> str:
        """`text` of an argument that a profile fixes, likewise. `given` gets the values that variables of the
        environment and files gave. Raises: Missing, as `expand`, or if there is no secret of a name; Unresolved, as
        `expand`, or if it asks for a program to be run."""
        if NUL in text:
            raise Unresolved("holds a NUL character, which no text here can have")
        return _REFERENCE.sub(partial(self._replace_or_mark_fixed, given=given), text) if "${" in text else text

    def _replace_or_mark(self, match: re.Match[str]) -> str:
        if (reference := _reference(match)) is not None:
            return mark_reference(self._defer(reference))
        if (reference := self._secret_of_variable(match)) is not None:
            return mark_reference(reference)
        if NUL in (text := self._replace(match, SERVER_FORMS)):
            raise Unresolved(NO_NUL)
        return text

    def _replace_or_mark_fixed(self, match: re.Match[str], given: list[str]) -> str:
        if (reference := _reference(match)) is not None:
            if reference.kind == "cmd":
                text = f"`{reference}` runs a program, and counts only in the settings of servers"
                advice = "run `hubd secret set NAME` with what that prints, and write ${secret:NAME} here"
                raise Unresolved(f"{text}: {advice}")
            reference = self._defer(reference)
            if reference.kind == "secret" and not reference.version:
                raise Missing(f"there is no secret {reference.text}: run `hubd secret set {reference.text}`")
            return mark_reference(reference)
        if NUL in (text := self._replace(match, FIXED_FORMS, given)):
            raise Missing(f"what `{match[0]}` leads to holds a NUL character, which no text here can have")
        return text

    def _secret_of_variable(self, match: re.Match[str]) -> Reference | None:
        """The secret by the name of a variable that is not set; None: it is set, or none is kept."""
        inner = match["inner"] or ""
        found = _VARIABLE.fullmatch(inner)
        if found is None or found["name"] in self.environ or inner in self._provided:
            return None
        try:
            reference = self._defer(Reference("secret", found["name"]))
        except Missing:  # the store cannot be read: the variable is what is missing
            return None
        return reference if reference.version else None

    def _defer(self, reference: Reference) -> Reference:
        """The reference to what is read when the server starts; that to a secret with its version."""
        if reference.kind == "cmd" and self._is_project:
            text = f"`{reference}` runs a program, and counts only in your own files, not in those of a project"
            raise Unresolved(f"{text}: write ${{secret:NAME}}, and run `hubd secret set NAME`")
        if reference.kind != "secret":
            return reference
        path = Path(base_directories.state_dir(), SECRETS_FILE)
        self.files.setdefault(path, b"")
        try:
            kept = read_secrets(path).get(reference.text)
        except StateUnreadable as error:
            raise Missing(str(error), error.remedy) from None
        return reference if kept is None else reference._replace(version=kept.version)

    def _replace(self, match: re.Match[str], forms: str = FORMS, given: list[str] | None = None) -> str:
        given = [] if given is None else given
        if match[0] == "$${":
            return "${"
        inner = match["inner"]
        if inner is None:
            raise Unresolved("`${` has no `}`; write `$${` for a plain `${`")
        if inner.startswith(("secret:", "credential:", "cmd:")):
            raise Unresolved(f"`${{{inner}}}` counts only in the settings of servers: write ${{file:path}} here")
        if inner.startswith("file:"):
            name = inner.removeprefix("file:")
            given.append(text := self._text(name, f"${{file:{name}}}").rstrip("\r\n"))
            return text
        if inner in self._provided and inner not in self.environ:
            return self._provided[inner]
        found = _VARIABLE.fullmatch(inner)
        if found is None or inner.startswith("workspaceFolder"):
            raise Unresolved(_meaningless(inner, forms))
        name, default = str(found["name"]), found["default"]
        value = self.environ.get(name)
        if default is not None and not value:
            return default
        if value is None:
            keep = f"run `hubd secret set {name}`, " if forms == SERVER_FORMS else ""
            text = f"the variable {name} is not set: {keep}set it in the environment of hubd, or in hubd.env beside"
            raise Missing(f"{text} hubd.toml, or give it a default as in ${{{name}:-default}}")
        given.append(value)
        return value

    def env_file(self, name: str) -> dict[str, str]:
        """The variables of a file of KEY=VALUE lines. Raises: as `assignments`."""
        return {each.name: each.value for each in self.assignments(name)}

    def assignments(self, name: str) -> list[Assignment]:
        """The lines of a file of KEY=VALUE lines; `name` may hold references itself.
        Raises: Missing, if it cannot be read; Unresolved, if a line is not of that form."""
        name = self.expand(name)
        try:
            return list(assignments(self._text(name, name)))
        except NotReadable as error:
            where = self._path(name) if error.line is None else f"line {error.line} of {self._path(name)}"
            raise Unresolved(f"{where} {error.reason}") from None

    def _path(self, name: str) -> Path:
        return self.directory / os.path.expanduser(name)

    def _text(self, name: str, shown: str) -> str:
        path = self._path(name)
        self._keep(path, b"")
        try:
            data, _ = read_plain(path, MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Missing(f"cannot read {path} for {shown}: {reason}") from None
        if len(data) > MAX_FILE_BYTES:
            self._keep(path, sha256(data).digest())  # which is another one when that changes
            raise Missing(f"{shown} is larger than {MAX_FILE_BYTES // 1024} KB: {path}")
        if self._total + len(data) > MAX_FILES_BYTES:
            raise Missing(f"{shown} and others together are larger than {MAX_FILES_BYTES >> 20} MB: {path}")
        self._keep(path, data)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Missing(f"{shown} is not UTF-8 text: {path}") from None

    def _keep(self, path: Path, data: bytes) -> None:
        self._total += len(data) - len(self.files.get(path, b""))
        self.files[path] = data


def _reference(match: re.Match[str]) -> Reference | None:
    """The reference to what is read later; None: it is of another form. Raises Unresolved for one without sense."""
    try:
        return None if match["inner"] is None else read(match["inner"])
    except Malformed as error:
        raise Unresolved(str(error)) from None


def _meaningless(inner: str, forms: str) -> str:
    kind = inner.partition(":")[0]
    if kind == "input":
        text = f"`${{{inner}}}` is a value that an editor asks for, and hubd cannot ask: put it into an environment"
        return f"{text} variable or a file, and write ${{VAR}} or ${{file:path}}"
    if kind.startswith("workspaceFolder"):
        return f"`${{{inner}}}` has a meaning only in the files of a project, .hubd.toml and .mcp.json: write a path"
    return f"`${{{inner}}}` means nothing here: write {forms}"
