// A host on an npm SDK: node node.cjs PLAN, with the plan and the report of common.py. Needs NODE_PATH.
// plan.sdk is 1 (@modelcontextprotocol/sdk) or 2 (@modelcontextprotocol/client, whose `mode` chooses the era).

const LIMIT_MS = 60_000;
const plan = JSON.parse(process.argv[2]);
const info = { name: 'node-host', version: '1' };

function first() {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
  const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { LoggingMessageNotificationSchema } = require('@modelcontextprotocol/sdk/types.js');
  return [new Client(info), StdioClientTransport, StreamableHTTPClientTransport, LoggingMessageNotificationSchema];
}

function second() {
  const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { versionNegotiation: { mode: plan.mode } });
  return [client, StdioClientTransport, StreamableHTTPClientTransport, 'notifications/message'];
}

const [client, Stdio, Http, logMethod] = plan.sdk === 1 ? first() : second();
const modern = plan.sdk === 2 && plan.mode === 'auto';
const wanted = modern ? { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } } : {};

const verbs = {
  tools: () => client.listTools(),
  resources: () => client.listResources(),
  templates: () => client.listResourceTemplates(),
  prompts: () => client.listPrompts(),
  call: (onprogress, name, args) => {
    const params = { name, arguments: args, ...wanted };
    return plan.sdk === 1 ? client.callTool(params, undefined, { onprogress }) : client.callTool(params, { onprogress });
  },
  read: (_, uri) => client.readResource({ uri }),
  prompt: (_, name, args) => client.getPrompt({ name, arguments: args }),
  complete: (_, ref, argument) => client.complete({ ref, argument: { name: argument.name, value: argument.value } })
};

async function main() {
  const transport = plan.url
    ? new Http(new URL(plan.url), { requestInit: { headers: { Authorization: `Bearer ${plan.token}` } } })
    : new Stdio({ command: plan.command[0], args: plan.command.slice(1), env: plan.env, stderr: 'inherit' });
  const logs = [];
  client.setNotificationHandler(logMethod, ({ params }) => {
    logs.push({ level: params.level, data: params.data });
  });
  await client.connect(transport);
  if (!modern) await client.setLoggingLevel('info');
  const answers = [];
  for (const [verb, ...rest] of plan.steps) {
    const progress = [];
    const onprogress = (each) => progress.push([each.progress, each.total]);
    let answer;
    try {
      answer = await verbs[verb](onprogress, ...rest);
    } catch (error) {
      answer = { error: { code: error.code ?? null, message: error.message } };
    }
    answers.push(progress.length ? { ...answer, progress } : answer);
  }
  const version = plan.sdk === 1 ? transport.protocolVersion ?? null : client.getNegotiatedProtocolVersion();
  await client.close();
  await new Promise((done) => process.stdout.write(JSON.stringify({ version, answers, logs }) + '\n', done));
}

setTimeout(() => {
  process.stderr.write('node host: out of time\n');
  process.exit(3);
}, LIMIT_MS).unref();
main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  }
);
