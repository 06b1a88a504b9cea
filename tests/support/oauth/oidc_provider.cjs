// An authorization server from the certified npm package oidc-provider: every login name is accepted.
//
//   node oidc_provider.cjs [--port 0] [--path /tenant1] [--ttl 3600] [--opaque] [--no-dcr] [--no-resource] [--no-rotate]
//                          [--cimd ORIGIN,...]
//
// Issuer: http://127.0.0.1:PORT[/PATH]. Prints one line of JSON when it listens. Control: POST /_rig/revoke-all (all
// grants end), POST /_rig/forget-clients (registrations are forgotten), POST /_rig/rotate-keys (a new signing key, the
// old one is gone), POST /_rig/expire (all access tokens end), GET /_rig/log (what the token endpoint was asked, newest
// last; no secrets but their last four characters), GET /_rig/client-key (the private key of the client `rig-key`).
//
// It is CommonJS because NODE_PATH, by which it finds the package, counts for `require` alone.
const { createServer } = require('node:http');
const { generateKeyPairSync, randomUUID } = require('node:crypto');
const { parseArgs } = require('node:util');
const { default: Provider } = require('oidc-provider');

const { values: arg } = parseArgs({
  options: {
    port: { type: 'string', default: '0' }, path: { type: 'string', default: '' }, ttl: { type: 'string', default: '3600' },
    opaque: { type: 'boolean', default: false },
    'no-dcr': { type: 'boolean', default: false }, 'no-resource': { type: 'boolean', default: false },
    'no-rotate': { type: 'boolean', default: false }, cimd: { type: 'string', default: '' },
  },
});
let origin;
let issuer;
const scopes = ['openid', 'offline_access', 'profile', 'email'];
const apiScopes = 'mcp mcp:read mcp:write mcp:admin';
const signingKey = () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID().slice(0, 8), use: 'sig', alg: 'ES256' };
};

// A small store, so that tests can make the server forget things.
const stores = new Map();
class Store {
  constructor(kind) { this.kind = kind; if (!stores.has(kind)) stores.set(kind, new Map()); this.map = stores.get(kind); }
  async upsert(id, payload, expiresIn) { this.map.set(id, { payload, until: expiresIn ? Date.now() + expiresIn * 1000 : Infinity }); }
  async find(id) { const e = this.map.get(id); return e && e.until > Date.now() ? e.payload : undefined; }
  async findBy(key, value) { for (const e of this.map.values()) if (e.payload[key] === value && e.until > Date.now()) return e.payload; return undefined; }
  async findByUid(uid) { return this.findBy('uid', uid); }
  async findByUserCode(code) { return this.findBy('userCode', code); }
  async consume(id) { this.map.get(id).payload.consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { this.map.delete(id); }
  async revokeByGrantId(grantId) { for (const [id, e] of this.map) if (e.payload.grantId === grantId) this.map.delete(id); }
}

let keys = [signingKey()];
const clientKey = { ...signingKey(), kid: 'rig-key-1' };
const { d: _, ...clientPublicKey } = clientKey;
const configuration = () => ({
  adapter: Store,
  clients: [
    { client_id: 'rig-public', client_name: 'Rig (public)', application_type: 'native', token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/oauth/callback', 'http://localhost/oauth/callback', 'http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'], response_types: ['code'] },
    { client_id: 'rig-secret', client_secret: 'rig secret: 100%+/=', client_name: 'Rig (confidential)', token_endpoint_auth_method: 'client_secret_basic',
      redirect_uris: ['http://127.0.0.1:8765/oauth/callback'], application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token', 'client_credentials'], response_types: ['code'] },
    { client_id: 'rig-key', client_name: 'Rig (key)', application_type: 'native', token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: 'ES256', jwks: { keys: [clientPublicKey] }, redirect_uris: [],
      grant_types: ['client_credentials'], response_types: [] },
    { client_id: 'rig-resource-server', client_secret: 'introspect-me', token_endpoint_auth_method: 'client_secret_basic',
      redirect_uris: [], grant_types: [], response_types: [] },
  ],
  jwks: { keys },
  scopes,
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
  async findAccount(_, id) {
    return { accountId: id, claims: async () => ({ sub: id, email: `${id}@example.test`, email_verified: true, name: id, groups: ['staff'] }) };
  },
  cookies: { keys: ['rig'] },
  pkce: { required: () => true },
  clientBasedCORS: () => true,
  // Client documents come from loopback here, which the library's own fetch refuses.
  fetch: (url, { method, headers, redirect, signal }) => globalThis.fetch(url, { method, headers, redirect, signal }),
  rotateRefreshToken: !arg['no-rotate'],
  issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed('refresh_token'),
  ttl: { AccessToken: +arg.ttl, ClientCredentials: +arg.ttl, Grant: 86400, IdToken: 3600, RefreshToken: 86400, Session: 86400, Interaction: 600, DeviceCode: 600, AuthorizationCode: 60 },
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: !arg['no-dcr'], rotateRegistrationAccessToken: true },
    registrationManagement: { enabled: !arg['no-dcr'] },
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: (ctx, client, token) => client.clientId === 'rig-resource-server' || token.clientId === client.clientId },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    ...(arg.cimd && { clientIdMetadataDocument: { enabled: true, ack: 'draft-02', allowFetch: (ctx, id) => arg.cimd.split(',').includes(new URL(id).origin) } }),
    resourceIndicators: arg['no-resource'] ? { enabled: false } : {
      enabled: true,
      defaultResource: (ctx, client, oneOf) => oneOf ?? undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({ scope: apiScopes, audience: resource, accessTokenTTL: +arg.ttl,
        accessTokenFormat: arg.opaque ? 'opaque' : 'jwt', ...(!arg.opaque && { jwt: { sign: { alg: 'ES256' } } }) }),
    },
  },
  enabledJWA: { idTokenSigningAlgValues: ['ES256'], userinfoSigningAlgValues: ['ES256'], introspectionSigningAlgValues: ['ES256'] },
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
});

let provider;
function build() {
  const made = new Provider(issuer, configuration());
  made.on('server_error', (_, error) => console.error(error));
  const grant = (ctx, error) => log.push({ grant: ctx.oidc?.params?.grant_type, client: ctx.oidc?.params?.client_id ?? ctx.oidc?.client?.clientId,
    resource: ctx.oidc?.params?.resource, scope: ctx.oidc?.params?.scope, refresh: ctx.oidc?.params?.refresh_token?.slice(-4), error: error?.error });
  made.on('grant.success', (ctx) => grant(ctx));
  made.on('grant.error', (ctx, error) => grant(ctx, error));
  return made;
}
const log = [];

const server = createServer((request, response) => {
  const url = new URL(request.url, origin);
  const control = { 'POST /_rig/revoke-all': () => { for (const k of ['Grant', 'AccessToken', 'RefreshToken']) stores.get(k)?.clear(); },
    'POST /_rig/forget-clients': () => stores.get('Client')?.clear(),
    'POST /_rig/rotate-keys': () => { keys = [signingKey()]; provider = build(); },
    'POST /_rig/expire': () => stores.get('AccessToken')?.clear(),
    'GET /_rig/client-key': () => clientKey,
    'GET /_rig/log': () => log }[`${request.method} ${url.pathname}`];
  if (control) return response.setHeader('content-type', 'application/json').end(JSON.stringify(control() ?? { ok: true }));
  // RFC 8414 puts the well-known part before the issuer's path; the library serves it behind. Both are served here.
  const inserted = /^\/\.well-known\/(oauth-authorization-server|openid-configuration)(\/.*)?$/.exec(url.pathname);
  if (inserted && (inserted[2] ?? '') !== arg.path) return response.writeHead(404).end();
  if (inserted) { request.url = '/.well-known/openid-configuration' + url.search; request.originalUrl = arg.path + request.url; }
  else if (arg.path && url.pathname.startsWith(arg.path + '/')) { request.url = request.url.slice(arg.path.length); request.originalUrl = arg.path + request.url; }
  else if (arg.path && !url.pathname.startsWith('/interaction')) return response.writeHead(404).end();
  provider.callback()(request, response);
}).listen(+arg.port, '127.0.0.1', () => {
  origin = `http://127.0.0.1:${server.address().port}`;
  issuer = origin + arg.path;
  provider = build();
  console.log(JSON.stringify({ issuer, control: origin }));
});
