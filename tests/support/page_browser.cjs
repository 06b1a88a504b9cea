// A real browser that looks at pages: chromium, headless, driven by playwright-core, one process for many pages.
//
//   node page_browser.cjs CHROMIUM AXE
//
// Reads a line of JSON for each step, [name, arguments...], and answers each by one: {"value": ...} or {"error": text}.
const { readFileSync, writeFileSync } = require('node:fs');
const { createInterface } = require('node:readline');
const { chromium } = require('playwright-core');

const [, , executablePath, axe] = process.argv;
const PATIENCE_MS = 30_000;
let browser, context, page;
let said = [];

const STEPS = {
  // A window of its own: nothing of the one before is known in it.
  async open(url, { width = 1280, height = 900, scheme = 'light', reduced = 'reduce' } = {}) {
    await context?.close();
    context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: reduced });
    context.setDefaultTimeout(PATIENCE_MS);
    page = await context.newPage();
    said = [];
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error.stack)));
    page.on('request', (request) => new URL(request.url()).origin === new URL(url).origin || said.push(`foreign: ${request.url()}`));
    await page.goto(url);
  },
  look: ({ width = 1280, height = 900, scheme = 'light' }) => Promise.all([page.setViewportSize({ width, height }), page.emulateMedia({ colorScheme: scheme })]).then(() => null),
  async tab(url) { page = await context.newPage(); await page.goto(url); },
  go: (hash) => page.evaluate((to) => { location.hash = to; }, hash),
  click: (role, name, options = {}) => page.getByRole(role, { name, exact: true, ...options }).first().click(),
  press: (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve()),
  type: (text) => page.keyboard.type(text),
  until: (text) => page.getByText(text).first().waitFor(),
  gone: (text) => page.getByText(text).first().waitFor({ state: 'detached' }),
  text: (selector = 'body') => page.locator(selector).first().innerText(),
  // Asked again and again from outside: the page lets nothing evaluate text as code.
  async waits(code) {
    const end = Date.now() + PATIENCE_MS;
    while (!await page.evaluate(code)) {
      if (Date.now() > end) throw new Error(`it is not so: ${code}`);
      await page.waitForTimeout(20);
    }
    return null;
  },
  url: () => page.url(),
  run: (code) => page.evaluate(code),
  said: () => said,
  cookies: async () => (await context.storageState()).cookies,
  shot: (path) => page.screenshot({ path, fullPage: true }).then(() => null),
  async picture(path) {
    const session = await context.newCDPSession(page);
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 });
    writeFileSync(path, Buffer.from(data, 'base64'));
    await session.detach();
  },
  // What axe-core finds wrong. It runs in a world of its own, since the page lets no script in.
  async axe() {
    const session = await context.newCDPSession(page);
    const { frameTree } = await session.send('Page.getFrameTree');
    const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
    const run = (expression) => session.send('Runtime.evaluate', { expression, contextId, awaitPromise: true, returnByValue: true });
    await run(readFileSync(axe, 'utf8'));
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const found = await run(`axe.run(document, { runOnly: ${JSON.stringify(tags)} }).then(({ violations }) => violations.flatMap(
      (each) => each.nodes.map((node) => each.id + ' ' + node.target + ': ' + node.failureSummary)))`);
    await session.detach();
    if (found.exceptionDetails) throw new Error(JSON.stringify(found.exceptionDetails));
    return found.result.value;
  },
};

// What went wrong, and what the page showed then.
async function told(error) {
  const shown = await page?.evaluate('document.body.innerText').catch(() => '');
  return { error: `${error}\nThe page shows:\n${shown ?? 'nothing'}` };
}

async function main() {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', ...quiet] });
  for await (const line of createInterface({ input: process.stdin })) {
    const [name, ...given] = JSON.parse(line);
    const answer = await Promise.resolve().then(() => STEPS[name](...given)).then((value) => ({ value: value ?? null }), told);
    console.log(JSON.stringify(answer));
  }
  await browser.close();
}
main();
