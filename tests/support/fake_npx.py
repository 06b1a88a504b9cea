#!/usr/bin/env python3
"""A package runner that follows a script; its tests copy it to a file called `npx`, or as they like.

    npx [-y] PACKAGE HOW FOLDER

It installs until FOLDER/PACKAGE is there, and then becomes the demo server. HOW it installs: `burn` uses the processor
a little, `print` says lines, `fork` starts processes, `hang` does nothing. `broken`: it says that zod is missing in its
folder of the npx cache, as long as there is a file `broken` in that; `spoilt`: and makes that file before. Each start
is noted in FOLDER/starts, each end of an install in FOLDER/ends.
"""

import os
import subprocess
import sys
import time
from hashlib import sha512

package, how, folder = [word for word in sys.argv[1:] if word != "-y"]


def say(text):
    os.write(2, f"{text}\n".encode())


def note(name):
    with open(f"{folder}/{name}", "a") as file:
        file.write(f"{package}\n")


def wait():
    if how == "burn":
        sum(range(1_000_000))
        time.sleep(0.1)  # noqa: TID251
    elif how == "print":
        say("fetching")
        time.sleep(0.2)  # noqa: TID251
    elif how == "fork":
        subprocess.run(["sleep", "0.3"], check=True)
    else:
        time.sleep(0.2)  # noqa: TID251


note("starts")
if how in ("broken", "spoilt"):
    cache = os.environ["NPM_CONFIG_CACHE"]
    mine = f"{cache}/_npx/{sha512(package.encode()).hexdigest()[:16]}"
    os.makedirs(mine, exist_ok=True)
    if how == "spoilt":
        open(f"{mine}/broken", "w").close()
    if os.path.exists(f"{mine}/broken"):
        with open(f"{mine}/package.json", "w") as file:
            file.write('{"dependencies": {"zod": "4"}}')
        where = f"{os.environ.get('SAYS', mine)}/node_modules/x/index.js"
        say(f"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from {where}")
        say("\n".join(f"    at step{number} (node:internal)" for number in range(12)))
        sys.exit(1)
else:
    while not os.path.exists(f"{folder}/{package}"):
        wait()
note("ends")
os.execv(sys.executable, [sys.executable, "-m", "upstreams.demo"])
