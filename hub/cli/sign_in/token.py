"""The token of a server that has no sign-in: asked for on the terminal, kept as a secret, shown to the server as a
header that refers to it."""

import os
import re
from getpass import getpass
from os import EX_CONFIG
from typing import Final

from config.editing.draft import Draft
from config.files import locked
from config.hosts.secret_literals import NewSecrets
from config.hub_paths import state_dir
from config.secrets.store import SecretStore
from hub.cli.configuration.saving import reload_hub, save, say_problems
from hub.cli.secret_commands import say_kept
from hub.cli.subcommand import EX_FAILED, Output

SCHEME: Final = "Bearer "


def ask_token(name: str, output: Output) -> int:
    """Ask for the token of the server `name`, keep it, and have the server connected with it; the exit code.

    Raises:
        EditError: it cannot be kept, or the file with the server cannot be edited.
    """
    output.say(f"{name} wants a token and has no sign-in; whoever runs it has tokens for you.")
    try:
        token = getpass("its token (it is not shown): ").strip().removeprefix(SCHEME).strip()
    except EOFError:
        token = ""
    if not token:
        return output.fail(EX_FAILED, "there was no answer; nothing was changed")
    new = NewSecrets(SecretStore.open())
    secret = new.name_for(re.sub(r"\W", "_", f"{name}_token").upper(), token)
    say_kept(new.keep(), output)
    with locked(state_dir()):
        draft = Draft(None, os.environ)
        headers = draft.settings_of(name).get("headers") or {}
        draft.assign(name, "headers", {**headers, "Authorization": f"{SCHEME}${{secret:{secret}}}"})
        if problems := draft.problems():
            say_problems(problems, output)
            text = f"{name} stays as it is; {secret} is kept, `hubd secret rm {secret}` removes it"
            return output.fail(EX_CONFIG, text)
        saved = save(draft, "edited", f"headers.Authorization of {name} refers to the secret {secret}", output)
    return reload_hub(saved, output, [name])
