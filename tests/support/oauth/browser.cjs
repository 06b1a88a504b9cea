// A real browser signs in: chromium, headless, driven by playwright-core.
//
//   node browser.cjs AUTHORIZATION_URL --chromium PATH [--user alice] [--password secret] [--code CODE] [--follow]
//
// Prints a line of JSON: the redirect URL with the code, and the text of the page. Without --follow the redirect is
// caught before anything is connected to, so that nothing need listen there; with it the browser goes there, as a
// person's would, and on to where that page sends it.
const { parseArgs } = require('node:util');
const { chromium } = require('playwright-core');

const { values: arg, positionals: [url] } = parseArgs({ allowPositionals: true, options: {
  user: { type: 'string', default: 'alice' }, password: { type: 'string', default: 'secret' },
  chromium: { type: 'string' }, code: { type: 'string', default: '' }, follow: { type: 'boolean', default: false } } });
const AGREE = /sign.?in|go on|log.?in|continue|allow|authorize|authorise|accept|confirm|grant|submit|^ok$/i;
const STEPS = 12;

// Fills in what asks for a name or a password, and presses the button that agrees.
async function step(page) {
  const free = ['hidden', 'password', 'checkbox', 'submit'].map((type) => `:not([type=${type}])`).join('');
  const code = page.locator('input[name=code]:visible');
  if (await code.count()) await code.fill(arg.code);
  const user = page.locator(`input:visible${free}`).first();
  const password = page.locator('input[type=password]:visible').first();
  if (!await code.count() && await user.count()) await user.fill(arg.user);
  if (await password.count()) await password.fill(arg.password);
  const links = page.locator('a:visible');
  const buttons = page.locator('button:visible, input[type=submit]:visible');
  for (const found of [buttons, links]) {
    for (let at = 0; at < await found.count(); at++) {
      const one = found.nth(at);
      const text = `${await one.innerText().catch(() => '')} ${(await one.getAttribute('value')) ?? ''}`.trim();
      if (AGREE.test(text) && await one.isEnabled()) return one.click({ timeout: 3000 }).catch(() => {});
    }
  }
}

async function main() {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const browser = await chromium.launch({ executablePath: arg.chromium, args: ['--no-sandbox', '--disable-gpu', ...quiet] });
  const page = await browser.newPage();
  // Of a page of the hub's the redirect URI is not known; it is that of the authorization URL that comes later.
  let redirect = new URL(url).searchParams.get('redirect_uri');
  let back;
  const found = new Promise((resolve) => page.on('request', (request) => {
    redirect ??= new URL(request.url()).searchParams.get('redirect_uri');
    if (redirect && request.url().startsWith(`${redirect}?`)) { back ??= request.url(); resolve(); }
  }));
  if (!arg.follow) {
    await page.route((to) => redirect && to.href.startsWith(`${redirect}?`), (route) => route.fulfill({ status: 200, body: 'caught' }));
  }
  await page.goto(url).catch((error) => { if (!back) throw error; });
  for (let at = 0; at < STEPS && !back; at++) {
    await page.waitForLoadState('networkidle').catch(() => {});
    if (!back) await Promise.race([found, step(page).then(() => page.waitForTimeout(500))]);
  }
  if (back) await page.waitForLoadState('networkidle').catch(() => {});
  const text = (await page.locator('body').innerText().catch(() => '')).trim();
  const at = page.url();
  await browser.close();
  if (!back) console.error(`stuck at ${at}: ${text.slice(0, 400)}`);
  else console.log(JSON.stringify({ redirect: back, url: at, text }));
  process.exit(back ? 0 : 1);
}
main();
