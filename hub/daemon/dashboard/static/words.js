// Numbers, times and names as people read them, in the words of the command line.

export const NONE = '–';

const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ' ');
const lacks = (value) => value === null || value === undefined;

export const count = (number) => lacks(number) ? NONE : grouped(Math.round(number));

// An estimate, with two digits: `~4 100`.
export function about(number) {
  if (lacks(number)) return NONE;
  const unit = 10 ** Math.max(0, String(Math.round(number)).length - 2);
  return `~${grouped(Math.round(number / unit) * unit)}`;
}

export function rate(perSecond) {
  return lacks(perSecond) ? NONE : perSecond && perSecond < 9.95 ? perSecond.toFixed(1) : count(perSecond);
}

export function percent(ratio) {
  if (lacks(ratio)) return NONE;
  return ratio && ratio < 0.0995 ? `${(100 * ratio).toFixed(1)} %` : `${Math.round(100 * ratio)} %`;
}

// How long a call took: `3 ms`, `1.2 s`, `30 s`.
export function took(seconds) {
  if (lacks(seconds)) return NONE;
  if (seconds < 0.0095) return `${(1000 * seconds).toFixed(1).replace('.0', '')} ms`;
  if (seconds < 0.9995) return `${Math.round(1000 * seconds)} ms`;
  return seconds < 9.95 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

// `42 s`, `3 min`, `5 h`, `2 d`.
export function duration(seconds) {
  if (lacks(seconds)) return NONE;
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['min', 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

export function size(bytes) {
  if (lacks(bytes)) return NONE;
  let number = bytes;
  let unit = 'B';
  for (const larger of ['KiB', 'MiB', 'GiB']) {
    if (number < 1023.5) break;
    [number, unit] = [number / 1024, larger];
  }
  return `${number < 9.95 ? number.toFixed(1).replace('.0', '') : Math.round(number)} ${unit}`;
}

// A sum in the user's own currency, with as many digits as tell it from nothing; none where nothing has a price.
export function money(sum) {
  return !sum ? NONE : sum < 0.1 ? String(Number(sum.toPrecision(2))) : sum.toFixed(2);
}

const two = (number) => String(number).padStart(2, '0');

export function clock(at) {
  const time = new Date(1000 * at);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':');
}

// The day before the time of day, unless that is today.
export function when(at) {
  const time = new Date(1000 * at);
  if (time.toDateString() === new Date().toDateString()) return clock(at);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock(at)}`;
}

export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

// What came of a call, and whether that is a failure.
export function outcome(call) {
  const text = call.outcome || (call.cached ? 'ok, from cache' : 'ok');
  return { text: call.executed === 'unknown' ? `${text}?` : text, isFailure: isFailure(call.outcome) };
}

export const isFailure = (word) => Boolean(word) && !['asked', 'cancelled', 'approval_required'].includes(word);
