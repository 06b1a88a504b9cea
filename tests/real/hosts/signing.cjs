// A host on an npm SDK that signs in at the hub's authorization server: node signing.cjs PLAN, as signing.py has it.
// plan.sdk is 1 (@modelcontextprotocol/sdk) or 2 (@modelcontextprotocol/client). Needs NODE_PATH.

const { createInterface } = require('node:readline');
const plan = JSON.parse(process.argv[2]);
const info = { name: 'signing-host', version: '1' };
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function sdk() {
  if (plan.sdk === 2) return require('@modelcontextprotocol/client');
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { UnauthorizedError } = require('@modelcontextprotocol/sdk/client/auth.js');
  return { Client, StreamableHTTPClientTransport, UnauthorizedError };
}

const kept = plan.client_id ? { client: { client_id: plan.client_id } } : {};
const provider = {
  redirectUrl: plan.redirect,
  clientMetadata: {
    client_name: 'signing host', redirect_uris: [plan.redirect], grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'], token_endpoint_auth_method: plan.method, application_type: 'native',
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  redirectToAuthorization: (url) => console.log(`OPEN ${url}`),
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};

async function main() {
  const { Client, StreamableHTTPClientTransport, UnauthorizedError } = sdk();
  const fresh = () => [
    plan.sdk === 2 ? new Client(info, { versionNegotiation: { mode: 'auto' } }) : new Client(info),
    new StreamableHTTPClientTransport(new URL(plan.url), { authProvider: provider }),
  ];
  let [client, transport] = fresh();
  try {
    await client.connect(transport);
    throw new Error('it was let in without a token');
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  const back = new URL((await lines.next()).value).searchParams;
  await transport.finishAuth(plan.sdk === 2 ? back : back.get('code'));
  [client, transport] = fresh();
  await client.connect(transport);
  const result = await client.callTool({ name: plan.tool, arguments: plan.arguments });
  console.log(`RESULT ${result.content[0].text}`);
  await client.close();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
