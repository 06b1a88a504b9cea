"""Realistic files of hosts: one home directory with every host, and edits by hand."""

from pathlib import Path
from typing import NamedTuple


class Kept(NamedTuple):
    """One host's file."""

    path: str
    """Below the home directory."""
    text: str
    edits: tuple[tuple[str, str], ...]
    """A replacement by hand, somewhere around our entry."""
    servers: tuple[str, ...]
    """The servers that `hubd import` finds in it."""


CLAUDE_DESKTOP = """{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem@2025.8.21",
        "/home/me/Documents"
      ]
    },
    "Linear": {
      "command": "npx",
      "args": ["-y", "mcp-remote@latest", "https://mcp.linear.app/mcp"]
    }
  }
}
"""

CLAUDE_CODE = """{
  "numStartups": 412,
  "projects": {
    "/home/me/shop": {
      "allowedTools": [],
      "mcpServers": {"shop-db": {"type": "stdio", "command": "shop-db", "args": ["--ro"], "env": {}}}
    }
  },
  "mcpServers": {
    "sentry": {
      "type": "http",
      "url": "https://mcp.sentry.dev/mcp"
    }
  },
  "userID": "0c7f"
}"""

CURSOR = """{
\t"mcpServers": {
\t\t"github": {
\t\t\t"command": "docker",
\t\t\t"args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server:v0.20"],
\t\t\t"env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
\t\t},
\t\t"notes": { "url": "http://localhost:4100/mcp" }
\t}
}
"""

VSCODE = """{
\t// Shared with the team, see wiki
\t"inputs": [
\t\t{ "type": "promptString", "id": "pg-url", "description": "URL", "password": true, },
\t],
\t"servers": {
\t\t"playwright": {
\t\t\t"type": "stdio",
\t\t\t"command": "npx", // no install needed
\t\t\t"args": ["@playwright/mcp@0.0.41"],
\t\t},
\t\t/* remote ones */
\t\t"docs": { "type": "http", "url": "https://learn.example/api/mcp" }, // public
\t},
}
"""

COPILOT = """{
  "mcpServers": {
    "time": {
      "type": "local",
      "command": "uvx",
      "tools": ["*"],
      "args": ["mcp-server-time==2025.7.1"]
    }
  }
}
"""

WINDSURF = """{
  "mcpServers": {
    "figma": {
      "serverUrl": "http://127.0.0.1:3845/mcp"
    }
  }
}
""".replace("\n", "\r\n")

ZED = """// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "theme": {
    "mode": "system", // or "light"
    "dark": "One Dark"
  },
  "context_servers": {
    "sqlite": {
      "source": "custom",
      "command": "uvx",
      "args": ["mcp-server-sqlite", "--db-path", "/home/me/${notes}.db"],
      "env": {}
    },
    "mcp-server-context7": {
      "source": "extension",
      "settings": { "context7_api_key": "unused" }
    },
  },
  "buffer_font_size": 15,
}
"""

JUNIE = '{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}}}'

CLINE = """{
  "mcpServers": {
    "fetch": {
      "autoApprove": ["fetch"],
      "disabled": false,
      "timeout": 60,
      "type": "stdio",
      "command": "uvx",
      "args": ["mcp-server-fetch"]
    },
    "old": {
      "disabled": true,
      "timeout": 60,
      "type": "sse",
      "url": "https://old.example/sse"
    }
  }
}"""

ROO = '{\n    "mcpServers": {\n    }\n}\n'

CONTINUE = """name: My Assistant
version: 1.0.0
schema: v1
# models come first
models:
  - name: Sonnet
    provider: anthropic
    model: claude-sonnet-4-5
    apiKey: ${{ secrets.ANTHROPIC_API_KEY }}
mcpServers:
  - name: Browser  # needs Chrome
    command: npx
    args:
      - "-y"
      - "@browsermcp/mcp@0.1.3"
    env:
      DEBUG: "1"
  - name: remote
    type: streamable-http
    url: https://tools.example/mcp

# rules
rules:
  - Answer briefly
"""

GOOSE = """GOOSE_PROVIDER: anthropic
GOOSE_MODEL: claude-sonnet-4-5
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
    bundled: true
  postgres:   # the reporting copy
    enabled: true
    type: stdio
    name: postgres
    cmd: uvx
    args:
    - postgres-mcp
    - --access-mode=restricted
    envs:
      DATABASE_URI: postgresql://report:hunter2hunter2@db.internal/reports
    timeout: 300
GOOSE_MODE: smart_approve
"""

LM_STUDIO = """{
  "mcpServers": {}
}"""

CODEX = """model = "gpt-5-codex"  # the usual one
model_reasoning_effort = "high"

[projects."/home/me/shop"]
trust_level = "trusted"

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["CONTEXT7_API_KEY"]
startup_timeout_sec = 20

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"

[tui]
notifications = true
"""

GEMINI = """{
  "security": {"auth": {"selectedType": "oauth-personal"}},
  "mcpServers": {
    "stripe": {"httpUrl": "https://mcp.stripe.com",
               "headers": {"Authorization": "Bearer $STRIPE_KEY"}, "timeout": 30000}
  }
}
"""

OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "theme": "system",
  // servers
  "mcp": {
    "everything": {
      "type": "local",
      "command": ["npx", "-y", "@modelcontextprotocol/server-everything"],
      "environment": { "LEVEL": "{env:LEVEL}" }, // from direnv
      "enabled": true
    }
    // that is all
  }
}
"""

WARP = """{
  "mcpServers": {
    "Puppeteer": { "command": "npx", "args": ["-y", "puppeteer-mcp"], "start_on_launch": true }
  }
}
"""

KIRO = """{
  "powers": {"enabled": []}
}
"""

HOMES: dict[str, Kept] = {
    "claude-desktop": Kept(
        ".config/Claude/claude_desktop_config.json",
        CLAUDE_DESKTOP,
        (("Ctrl+Space", "Alt+Space"), ('    "filesystem": {', '    "extra": {"command": "x"},\n    "filesystem": {')),
        ("filesystem", "linear"),
    ),
    "claude-code": Kept(".claude.json", CLAUDE_CODE, (("412", "413"), ('"0c7f"', '"0c7f",\n  "n": 1')), ("sentry",)),
    "cursor": Kept(".cursor/mcp.json", CURSOR, (("4100", "4200"),), ("github", "notes")),
    "vscode": Kept(
        ".config/Code/User/mcp.json",
        VSCODE,
        (("see wiki", "see the wiki"), ('\t\t/* remote ones */\n', "")),
        ("playwright", "docs"),
    ),
    "copilot": Kept(".copilot/mcp-config.json", COPILOT, (("2025.7.1", "2025.8.1"),), ("time",)),
    "windsurf": Kept(".codeium/windsurf/mcp_config.json", WINDSURF, (("3845", "3846"),), ("figma",)),
    "zed": Kept(
        ".config/zed/settings.json",
        ZED,
        (("One Dark", "Ayu Dark"), ('"buffer_font_size": 15,', '"buffer_font_size": 16, // larger')),
        ("sqlite",),
    ),
    "junie": Kept(".junie/mcp/mcp.json", JUNIE, (("server-memory", "server-memory@2025.8.4"),), ("memory",)),
    "cline": Kept(
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        CLINE,
        (('"autoApprove": ["fetch"]', '"autoApprove": []'),),
        ("fetch", "old"),
    ),
    "roo": Kept(
        ".config/Cursor/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ROO,
        (('    "mcpServers"', '    "later": 1,\n    "mcpServers"'),),
        (),
    ),
    "continue": Kept(
        ".continue/config.yaml",
        CONTINUE,
        (("briefly", "in full"), ("# rules\n", "# the rules\n\n"), ('      DEBUG: "1"\n', "")),
        ("browser", "remote"),
    ),
    "goose": Kept(
        ".config/goose/config.yaml",
        GOOSE,
        (("smart_approve", "auto"), ("bundled: true\n", "bundled: true\n  # databases\n")),
        ("postgres",),
    ),
    "lm-studio": Kept(".lmstudio/mcp.json", LM_STUDIO, (), ()),
    "codex": Kept(
        ".codex/config.toml",
        CODEX,
        (("the usual one", "as always"), ("notifications = true\n", 'notifications = true\ntheme = "x"\n')),
        ("context7", "figma"),
    ),
    "gemini": Kept(".gemini/settings.json", GEMINI, (("30000", "60000"),), ("stripe",)),
    "opencode": Kept(
        ".config/opencode/opencode.json",
        OPENCODE,
        (("that is all", "that was all"), ('"theme": "system"', '"theme": "dark"')),
        ("everything",),
    ),
    "warp": Kept(".warp/.mcp.json", WARP, (("true", "false"),), ("puppeteer",)),
    "kiro": Kept(".kiro/settings/mcp.json", KIRO, (("[]", '["a"]'),), ()),
}  # fmt: skip


def write(home: Path, *hosts: str) -> dict[str, Path]:
    """Write the files of these hosts, or of all, below `home`; returns their paths by host."""
    paths = {}
    for id in hosts or HOMES:
        paths[id] = home / HOMES[id].path
        paths[id].parent.mkdir(parents=True, exist_ok=True)
        paths[id].write_bytes(HOMES[id].text.encode())
    return paths
