// The page: who is signed in, which page is shown, what stands above all of them.

import { Feed, forget, isSignedIn, signIn } from './api.js';
import { call, calls } from './calls.js';
import { cache, config } from './config.js';
import { h, render } from './dom.js';
import { inbox, item } from './inbox.js';
import { log } from './log.js';
import { beginPage, drawBy, model, redraw, take } from './model.js';
import { hosts, overview } from './overview.js';
import { ask, button, forgetNotice, say, state, to } from './parts.js';
import { server } from './server.js';
import { duration } from './words.js';

const PAGES = { '': overview, calls, call, hosts, server, cache, config, log, inbox };
const NAVIGATION = [['', 'Overview'], ['calls', 'Calls'], ['hosts', 'Hosts'], ['inbox', 'Inbox'], ['log', 'Log'], ['cache', 'Cache'], ['config', 'Config']];
const KEYS_OFF = 'hubd.keys-off';
const top = document.getElementById('top');
const main = document.getElementById('main');
const feed = new Feed(hear, tell);
let shown = { name: '', page: overview, args: [], data: null, problem: null, loaded: 0 };
let refusal = '';

// --- which page ------------------------------------------------------------------------------------------------------

function go() {
  const [name, ...args] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  const page = name === 'inbox' && args.length === 2 ? item : PAGES[name];
  const isNew = page !== shown.page || args[0] !== shown.args[0];
  shown = { name, page, args, data: isNew ? null : shown.data, problem: null, loaded: 0 };
  const follows = page?.follows?.(args) ?? '';
  beginPage(follows);
  if (isNew) forgetNotice();
  feed.follow(follows);
  load();
  draw();
  if (isNew) {
    scrollTo(0, 0);
    main.querySelector('h1')?.focus();
  }
}

async function load() {
  const { page, args } = shown;
  if (!page?.load || !isSignedIn()) return;
  const asked = shown;
  asked.loaded = Infinity;
  try {
    asked.data = (await page.load(args)) ?? {};
    asked.problem = null;
  } catch (problem) {
    asked.problem = problem;
    if (problem.kind === 'signed_out') leave(problem.message);
  }
  asked.loaded = Date.now();
  redraw();
}

function tick() {
  const { page, loaded, problem } = shown;
  const every = page?.every ?? (problem && 2000);
  if (every && !document.hidden && model.link.word === 'live' && Date.now() - loaded > every) load();
  if (model.link.word === 'lost') drawTop();
}

// --- drawing ---------------------------------------------------------------------------------------------------------

function draw() {
  drawTop();
  if (!isSignedIn()) return drawSignIn();
  const { page, args } = shown;
  const title = page?.title(args) ?? 'There is no such page';
  document.title = `${title} – hubd`;
  render(main, h('h1', { tabindex: '-1', key: location.hash }, title), body());
}

function body() {
  const { page, args, data, problem } = shown;
  if (!page) return h('p', {}, 'The pages are above.');
  if (problem && !data) return h('p.panel', {}, state('bad', problem.message));
  if (!model.overview || (page.load && !data)) return h('p.empty', {}, 'Loading.');
  return page.view(args, data);
}

function drawTop() {
  const { overview: all, link } = model;
  render(top, h('a.brand', { href: '#/' }, h('img', { src: 'mark.svg', alt: '', width: 20, height: 20 }), 'hubd', h('small', {}, all?.version ?? '')),
    isSignedIn() && [
      h('nav', { 'aria-label': 'Pages' }, NAVIGATION.map(([name, text]) => h('a', { href: name ? to(name) : '#/', 'aria-current': name === shown.name && 'page' },
        text, name === 'inbox' && all?.inbox.items.length > 0 && h('span.count', {}, all.inbox.items.length)))),
      h('div.session', {}, connection(link), all && h('span.principal', {}, all.principal), button('Keys', help, 'plain'), button('Sign out', out, 'plain')),
    ]);
}

function connection({ word, until }) {
  if (word === 'lost') return state('bad', `lost, retrying in ${duration(Math.max(0, until - Date.now()) / 1000)}`);
  return word === 'live' ? state('good', 'live') : state('busy', word);
}

function drawSignIn() {
  document.title = 'Signed out – hubd';
  const submit = async (event) => {
    event.preventDefault();
    await enter(new FormData(event.target).get('ticket'));
  };
  render(main, h('h1', { tabindex: '-1' }, 'Signed out'),
    refusal && h('p.panel', { role: 'alert' }, state('bad', refusal)),
    h('p', {}, 'Run ', h('code', {}, 'hubd dashboard'), ' in a terminal, or paste what ', h('code', {}, 'hubd dashboard --print'), ' shows:'),
    h('form.tools', { submit }, h('label.filter', {}, h('span', {}, 'Ticket'), h('input', { name: 'ticket', required: true, autocomplete: 'off', spellcheck: 'false' })),
      h('button.strong', {}, 'Sign in')));
}

// --- the session -----------------------------------------------------------------------------------------------------

async function enter(ticket) {
  try {
    await signIn(ticket);
    refusal = '';
  } catch (problem) {
    refusal = problem.message;
  }
  if (isSignedIn()) feed.restart();
  go();
}

function leave(why) {
  forget();
  feed.stop();
  refusal = why;
  Object.assign(model, { overview: null, calls: [] });
  draw();
}

async function out() {
  if (!await ask('Sign out of this page?', 'Other tabs stay signed in; `hubd dashboard --sign-out` ends all sessions.', 'Sign out')) return;
  leave('');
}

function hear(name, data) {
  say(take(name, data));
  if (name === 'state' && shown.loaded !== Infinity) load(); // what ended while nothing was heard
}

function tell(link) {
  if (link.word === 'ended') return leave(link.problem.message);
  if (link.word === 'lost' && model.link.word === 'live') say('The connection to the hub is lost.');
  model.link = link;
  redraw();
}

// --- keys ------------------------------------------------------------------------------------------------------------

async function help() {
  const change = (event) => localStorage.setItem(KEYS_OFF, event.target.checked ? '' : 'yes');
  await ask('Keys', [
    h('dl.facts', {}, [['/', 'go to the filter'], ['?', 'this help'], ['Tab, Enter', 'go on, open'], ['Esc', 'close']].map(([key, what]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)))),
    h('label', {}, h('input', { type: 'checkbox', checked: !localStorage.getItem(KEYS_OFF), change }), ' / and ? are keys of this page'),
  ], '', 'Close');
}

function press(event) {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector('dialog[open]');
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(KEYS_OFF)) return;
  const field = document.getElementById('filter');
  if (event.key === '?') help();
  else if (event.key === '/' && field) field.focus();
  else return;
  event.preventDefault();
}

// --- the beginning ---------------------------------------------------------------------------------------------------

const begun = /^#ticket=(.+)/.exec(location.hash);
if (begun) history.replaceState(null, '', location.pathname);
drawBy(draw, load);
addEventListener('hashchange', () => (location.hash.startsWith('#ticket=') ? location.reload() : go()));
addEventListener('keydown', press);
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
setInterval(tick, 1000);
if (begun) enter(begun[1]);
else go();
