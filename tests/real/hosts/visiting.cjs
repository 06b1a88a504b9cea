// A host on the first npm SDK whose user is sent to a page by -32042, as visiting2.py has it. Needs NODE_PATH.

const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { ElicitationCompleteNotificationSchema } = require('@modelcontextprotocol/sdk/types.js');

const plan = JSON.parse(process.argv[2]);
const client = new Client({ name: 'visiting-host', version: '1' }, { capabilities: { elicitation: { url: {} } } });

async function main() {
  const transport = plan.url
    ? new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers: { Authorization: `Bearer ${plan.token}` } } })
    : new StdioClientTransport({ command: plan.command[0], args: plan.command.slice(1), env: plan.env, stderr: 'inherit' });
  const complete = new Promise((resolve) => {
    client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => resolve(params.elicitationId));
  });
  await client.connect(transport);
  const call = () => client.callTool({ name: plan.tool, arguments: {} });
  try {
    await call();
    throw new Error('nobody was asked');
  } catch (error) {
    if (error.code !== -32042) throw error;
    const [page] = error.data.elicitations;
    console.log(`VISIT ${page.url} ${page.message}`);
    if (await complete !== page.elicitationId) throw new Error('another page is done');
  }
  const result = await call();
  console.log(`RESULT ${result.content[0].text}`);
  await client.close();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
