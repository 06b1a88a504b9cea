// Elements as plain values, and the one function that makes a part of the document be like them.
//
// Text gets in as text nodes only, so a name with tags in it is shown, never read. Whatever nobody would see is shown
// as a mark: it may be meant for a model, or hide how a text reads.

const SVG = 'http://www.w3.org/2000/svg';
const HIDDEN = new RegExp(
  '[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800'
  + '\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}'
  + ']|(?![\\n\\t])\\p{C}|(?! )\\p{Z}', 'gu');

// An element: `h('td.number', { title }, 'text', child)`; `svg:path` is one of SVG. Members of `attributes` that are
// functions listen to the event of that name; `key` tells children of one parent apart when their order changes.
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split('.');
  const all = { ...attributes };
  if (classes.length) all.class = classes.join(' ') + (all.class ? ` ${all.class}` : '');
  return { name, attributes: all, children };
}

// The text with each hidden character as `<U+200B>`, for attributes.
export const plain = (text) => String(text).replace(HIDDEN, (one) => `<${codePoint(one)}>`);

const codePoint = (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

// Make the children of `parent` be these; what has the focus keeps it if it is still there.
export function render(parent, ...children) {
  const focused = document.activeElement;
  fill(parent, children);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function fill(parent, children) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.hubKey !== undefined) keyed.set(node.hubKey, node);
  let at = parent.firstChild;
  for (const wanted of flat(children)) {
    const { key } = wanted.attributes ?? {};
    let node = key === undefined ? at : keyed.get(key);
    if (!isLike(node, wanted, key)) node = make(wanted, key);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function* flat(children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === '') continue;
    if (Array.isArray(child)) yield* flat(child);
    else if (typeof child === 'object') yield child;
    else yield* withMarks(String(child));
  }
}

function* withMarks(text) {
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) yield text.slice(from, found.index);
    yield h('span.mark', { title: 'a hidden character' }, codePoint(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) yield text.slice(from);
}

const isText = (wanted) => typeof wanted === 'string';
const isLike = (node, wanted, key) => node && node.hubKey === key && node.hubName === (isText(wanted) ? '' : wanted.name);

function make(wanted, key) {
  const [space, name] = isText(wanted) ? [] : wanted.name.startsWith('svg:') ? [SVG, wanted.name.slice(4)] : ['', wanted.name];
  const node = isText(wanted) ? document.createTextNode('')
    : space ? document.createElementNS(space, name) : document.createElement(name);
  node.hubName = isText(wanted) ? '' : wanted.name;
  node.hubKey = key;
  node.hubAttributes = {};
  return node;
}

function update(node, wanted) {
  if (isText(wanted)) {
    if (node.data !== wanted) node.data = wanted;
    return;
  }
  const before = node.hubAttributes;
  for (const name of Object.keys({ ...before, ...wanted.attributes })) {
    const value = wanted.attributes[name];
    if (name !== 'key' && value !== before[name]) set(node, name, value, before[name]);
  }
  node.hubAttributes = wanted.attributes;
  fill(node, wanted.children);
}

function set(node, name, value, before) {
  if (typeof (value ?? before) === 'function') {
    if (before) node.removeEventListener(name, before);
    if (value) node.addEventListener(name, value);
  } else if (name === 'checked' || name === 'value') node[name] = value ?? '';
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : name === 'href' ? value : plain(value));
}
