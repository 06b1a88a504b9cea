"""An authorization server from Django and django-oauth-toolkit: users alice and bob, password secret.

    python django_toolkit.py [--port 0] [--path /o] [--ttl 3600] [--grace 0] [--no-dcr] [--no-iss] [--cimd]

Issuer: http://127.0.0.1:PORT/PATH, which has a path: so discovery must put the well-known part before it. Opaque access
tokens (introspection), refresh rotation with reuse detection, resource indicators, device flow, dynamic registration;
all of it in memory. Prints one line of JSON when it listens. Control: POST /_rig/revoke-all, /_rig/forget-clients,
/_rig/expire, GET /_rig/log (what the token endpoint was asked, newest last).
"""

import argparse
import json
import socket
import sys
from datetime import timedelta
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--path", default="/o")
parser.add_argument("--ttl", type=int, default=3600)
parser.add_argument("--grace", type=int, default=0, help="seconds for which an old refresh token is still good")
parser.add_argument("--no-dcr", action="store_true")
parser.add_argument("--no-iss", action="store_true")
parser.add_argument("--cimd", action="store_true", help="fetch client documents, without TLS from loopback")
args = parser.parse_args()
LISTENER = socket.create_server(("127.0.0.1", args.port), backlog=256)
ORIGIN = f"http://127.0.0.1:{LISTENER.getsockname()[1]}"
ISSUER = ORIGIN + args.path

APPS = ["auth", "contenttypes", "sessions", "messages", "oauth2_provider"]

import django  # noqa: E402
from django.conf import settings  # noqa: E402

settings.configure(
    DEBUG=False,
    LOGGING={
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler", "level": "ERROR"}},
        "root": {"handlers": ["stderr"], "level": "ERROR"},
    },
    SECRET_KEY="rig",
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "file:rig?mode=memory&cache=shared",
            "OPTIONS": {"uri": True},
        }
    },
    INSTALLED_APPS=[f"django.contrib.{app}" for app in APPS[:-1]] + APPS[-1:],
    MIDDLEWARE=[
        f"{__name__}.noted",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    MIGRATION_MODULES=dict.fromkeys(APPS),  # tables as they are in the end, made at once
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    LOGIN_URL="/login",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    OAUTH2_PROVIDER={
        "SCOPES": {"mcp": "Use tools", "mcp:read": "Read", "mcp:write": "Write", "offline_access": "Stay signed in"},
        "DEFAULT_SCOPES": ["mcp"],
        "ACCESS_TOKEN_EXPIRE_SECONDS": args.ttl,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 86400,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": args.grace,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "PKCE_REQUIRED": True,
        "ALLOWED_SCHEMES": ["http", "https"],
        "OIDC_ISS_ENDPOINT": ISSUER,
        "OAUTH_DEVICE_VERIFICATION_URI": f"{ORIGIN}{args.path}/device/",
        "OAUTH_DEVICE_VERIFICATION_URI_COMPLETE": lambda code: f"{ORIGIN}{args.path}/device/?user_code={code}",
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["client_secret_post", "client_secret_basic", "none"],
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": [
            "authorization_code",
            "client_credentials",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "DCR_ENABLED": not args.no_dcr,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",),
        "CIMD_ENABLED": args.cimd,
        "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": not args.no_iss,
        "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
        "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    },
)
django.setup()

from django.contrib.auth import authenticate, get_user_model, login  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse  # noqa: E402
from django.middleware.csrf import get_token  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils import timezone  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from oauth2_provider import models  # noqa: E402
from oauth2_provider import urls as oauth_urls  # noqa: E402


def sign_in(request):
    after = request.GET.get("next") or request.POST.get("next") or "/"
    if request.method == "POST":
        user = authenticate(request, username=request.POST["username"], password=request.POST["password"])
        if user is not None:
            login(request, user)
            return HttpResponseRedirect(after)
    from django.utils.html import escape

    return HttpResponse(
        f'<form method="post"><input type="hidden" name="csrfmiddlewaretoken" value="{get_token(request)}">'
        f'<input type="hidden" name="next" value="{escape(after)}"><input type="text" name="username">'
        '<input type="password" name="password"><button type="submit" name="go" value="login">Log in</button></form>'
    )


LOG = []


def noted(answer):
    """Middleware: notes what the token endpoint is asked, with the last four characters of secrets."""

    def note(request):
        response = answer(request)
        if request.path == f"{args.path}/token/":
            asked = {name: request.POST.get(name) for name in ("grant_type", "client_id", "resource", "scope")}
            refresh = (request.POST.get("refresh_token") or "")[-4:] or None
            LOG.append({"grant": asked.pop("grant_type"), **asked, "refresh": refresh, "status": response.status_code})
        return response

    return note


@csrf_exempt
def control(request, what):
    if what == "log":
        return JsonResponse(LOG, safe=False)
    if what == "revoke-all":
        for model in (models.get_refresh_token_model(), models.get_access_token_model(), models.get_grant_model()):
            model.objects.all().delete()
    elif what == "expire":
        models.get_access_token_model().objects.update(expires=timezone.now() - timedelta(seconds=1))
    elif what == "forget-clients":
        models.get_application_model().objects.exclude(client_id__startswith="rig-").delete()
    return JsonResponse({"ok": True})


urlpatterns = [
    path("login", sign_in),
    path("_rig/<slug:what>", control),
    path("", include((oauth_urls.metadata_urlpatterns, "metadata"))),
    path(args.path.strip("/") + "/", include("oauth2_provider.urls", namespace="oauth2_provider")),
]


def furnish():
    call_command("migrate", run_syncdb=True, verbosity=0)
    user = get_user_model().objects.create_user("alice", "alice@example.test", "secret")
    get_user_model().objects.create_user("bob", "bob@example.test", "secret")
    app = models.get_application_model()
    common = {"authorization_grant_type": app.GRANT_AUTHORIZATION_CODE, "user": user}
    app.objects.create(
        client_id="rig-public",
        client_type=app.CLIENT_PUBLIC,
        redirect_uris="http://127.0.0.1/oauth/callback http://localhost/oauth/callback http://127.0.0.1/callback",
        name="public",
        **common,
    )
    app.objects.create(
        client_id="rig-secret",
        client_secret="rig secret: 100%+/=",
        client_type=app.CLIENT_CONFIDENTIAL,
        redirect_uris="http://127.0.0.1:8765/oauth/callback",
        name="confidential",
        **common,
    )
    app.objects.create(
        client_id="rig-resource-server",
        client_secret="introspect-me",
        client_type=app.CLIENT_CONFIDENTIAL,
        name="resource server",
        authorization_grant_type=app.GRANT_CLIENT_CREDENTIALS,
        user=user,
    )
    app.objects.create(
        client_id="rig-device",
        client_type=app.CLIENT_PUBLIC,
        name="device",
        authorization_grant_type=app.GRANT_DEVICE_CODE,
        user=user,
    )


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


if __name__ == "__main__":
    connection.ensure_connection()  # keeps the database in memory alive
    furnish()
    server = Server(LISTENER.getsockname(), Quiet, bind_and_activate=False)
    server.socket.close()
    server.socket = LISTENER
    server.server_name, server.server_port = LISTENER.getsockname()
    server.setup_environ()
    server.set_app(get_wsgi_application())
    sys.stdout.write(json.dumps({"issuer": ISSUER, "control": ORIGIN}) + "\n")
    sys.stdout.flush()
    server.serve_forever()
