// An MCP server on the npm SDK 2.x that speaks the modern era only: node node2_server.cjs NAME [--http].
// NAME is the scheme of its URIs. Over HTTP it listens on a free port and prints its URL. Needs NODE_PATH.

const http = require('node:http');
const { setTimeout: pause } = require('node:timers/promises');
const { McpServer, ResourceTemplate, completable, createMcpHandler } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');
const { toNodeHandler } = require('@modelcontextprotocol/node');
const { z } = require('zod');

// npm clients lose progress that arrives together with the answer: they handle it a turn later, when nobody waits.
const PAUSE_MS = 50;
const [name, how] = process.argv.slice(2);
const text = (value) => ({ content: [{ type: 'text', text: value }] });

function build() {
  const server = new McpServer(
    { name: `${name}-server`, version: '1.2.3' },
    { capabilities: { logging: {} }, instructions: `Instructions of ${name}.` }
  );
  server.registerTool(
    'echo',
    { description: 'Says back what it is told.', inputSchema: z.object({ text: z.string() }) },
    async (args) => text(args.text)
  );
  server.registerTool(
    'add',
    {
      description: 'Adds, with structured content.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ result: z.number() })
    },
    async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } })
  );
  server.registerTool('fail', { description: 'Fails.', inputSchema: z.object({}) }, async () => ({
    ...text('failed on purpose'),
    isError: true
  }));
  server.registerTool(
    'progress',
    { description: 'Reports progress at every step.', inputSchema: z.object({ steps: z.number() }) },
    async ({ steps }, ctx) => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      for (let step = 1; step <= steps && progressToken !== undefined; step++) {
        const params = { progressToken, progress: step, total: steps, message: `step ${step}` };
        await ctx.mcpReq.notify({ method: 'notifications/progress', params });
        await pause(PAUSE_MS);
      }
      return text(`${steps} steps`);
    }
  );
  server.registerTool(
    'log',
    { description: 'Logs a warning.', inputSchema: z.object({ text: z.string() }) },
    async (args, ctx) => {
      await ctx.mcpReq.log('warning', args.text, 'real');
      return text('logged');
    }
  );
  server.registerResource('note', `${name}://note`, { mimeType: 'text/plain' }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: `note of ${name}` }]
  }));
  server.registerResource(
    'item',
    new ResourceTemplate(`${name}://item/{id}`, { list: undefined }),
    { mimeType: 'text/plain' },
    async (uri, { id }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `item ${id} of ${name}` }] })
  );
  const names = ['Ada', 'Alan', 'Grace'];
  const who = completable(z.string(), (value) => names.filter((each) => each.startsWith(value)));
  server.registerPrompt(
    'greet',
    { description: 'Greets somebody.', argsSchema: z.object({ name: who }) },
    (args) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `Greet ${args.name} from ${name}.` } }]
    })
  );
  return server;
}

if (how === '--http') {
  const handle = toNodeHandler(createMcpHandler(build, { legacy: 'reject' }));
  const listener = http.createServer((request, response) => handle(request, response));
  listener.listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${listener.address().port}/mcp\n`);
  });
} else {
  serveStdio(build, { legacy: 'reject' });
}
